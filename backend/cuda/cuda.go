//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Supported reports whether this build supports GPUs.
const Supported = true

// Backend computes on one GPU. It may be called concurrently; calls take turns.
//
// A kernel's method locks mu while it appends to the list. Driver errors panic with
// *backend.DeviceError.
type Backend struct {
	mu sync.Mutex
	*device

	// arena is the device memory of tensors, weights and working memory.
	arena arena

	// list has the commands that were not sent yet, and call the one being described. arguments are
	// the host slices that they read.
	list      list
	call      call
	arguments arguments

	// staging copies large slices to the device, results small ones back.
	staging staging
	results results

	// graphs are those of lists that were sent before.
	graphs graphs

	// copies are the bfloat16 versions of activations.
	copies copies

	// working memory of kernels
	products products
	heads    headMemory
	choices  choiceMemory
	images   images

	// segments are a call's segments in the kernels' layout; pieces are segments cut for kernels
	// with blocks of a fixed number of rows. Both are memory that calls reuse.
	segments []int32
	pieces   []backend.Segment

	// trace times every command; nil if nothing is traced.
	trace *tracer
}

// New returns GPU o.Device. If there is none the one-line error names what is missing.
func New(o Options) (*Backend, error) {
	v, err := openDevice(o, embedded)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	b := &Backend{device: v}
	b.arena = arena{device: v, live: map[devicePtr]int{}, drain: b.drain, exact: o.Exact}
	b.graphs = graphs{seen: map[uint64]bool{}, byHash: map[uint64]*graph{}}
	if err = b.pinResults(); err == nil {
		err = b.openTrace()
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("cuda: %w", err)
	}
	return b, nil
}

// pinResults allocates the pinned memory for results.
func (b *Backend) pinResults() (err error) {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	b.results.memory, err = b.pin(outBytes)
	return err
}

// Close frees all device memory. Tensors of the backend must not be used any more.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.context == 0 {
		return nil
	}
	if err := b.enter(); err != nil {
		return err
	}

	// Everything is freed even if a call fails; the first error is the one that says why.
	var first error
	record := func(err error) {
		first = cmp.Or(first, err)
	}
	record(b.graphs.clear(b))
	b.trace.close(b.device, record)
	b.arguments.close(b.device, record)
	b.staging.close(b.device, record)
	if b.results.memory != nil {
		record(b.unpin(b.results.memory))
	}
	for _, c := range b.arena.chunks {
		record(b.memFree(c.address))
	}
	b.leave()
	record(b.device.close())
	return first
}

// Name returns the GPU's name, such as "cuda:0 NVIDIA H200".
func (b *Backend) Name() string { return fmt.Sprintf("cuda:%d %s", b.Index, b.Model) }

// MemoryFree implements backend.MemoryReporter: what new tensors could take, of what the device
// has.
func (b *Backend) MemoryFree() (free, total int, err error) {
	collectGarbage() // tensors that nothing refers to count as free memory
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(); err != nil {
		return 0, 0, err
	}
	defer b.leave()
	b.arena.releaseUnreferenced()
	free, total, err = b.memoryInfo()
	for _, s := range b.arena.free {
		free += s.bytes
	}
	return free, total, err
}

// New returns a zeroed float32 tensor in device memory, which is freed when nothing refers to it
// any more.
func (b *Backend) New(shape ...int) *tensor.Dense {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes := 4 * tensor.Shape(shape).TotalSize()
	p := b.allocate(bytes)
	b.zero(p, bytes)
	t := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32), tensor.WithEngine(b),
		tensor.FromMemory(uintptr(p), uintptr(bytes)))
	runtime.AddCleanup(t, b.arena.releaseLater, p)
	return t
}

// Write copies src to dst from row `row` on.
func (b *Backend) Write(dst *tensor.Dense, row int, src []float32) {
	backend.CheckCopy("Write", dst, row, len(src))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store(b.addressOf(dst)+devicePtr(4*row*backend.Width(dst)), bytesOf(src))
	runtime.KeepAlive(dst)
}

// Read copies src from row `row` on to dst.
func (b *Backend) Read(dst []float32, src *tensor.Dense, row int) {
	backend.CheckCopy("Read", src, row, len(dst))
	b.mu.Lock()
	defer b.mu.Unlock()
	fetch(b, dst, b.addressOf(src)+devicePtr(4*row*backend.Width(src)))
	b.sync()
	runtime.KeepAlive(src)
}
