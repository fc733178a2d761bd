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
	arena     arena
	list      list
	call      call // the call being described
	segments  []int32
	arguments arguments
	staging   staging
	results   results
	graphs    graphs
	products  products
	heads     heads
	choices   choices
	images    images
	copies    copies
	trace     *tracer // nil: nothing is traced
	// pieces of segments, for kernels with blocks of a fixed number of rows
	pieces []backend.Segment
}

// New returns GPU o.Device. If there is none the one-line error names what is missing.
func New(o Options) (*Backend, error) {
	v, err := openDevice(o, embedded)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	b := &Backend{device: v}
	b.arena = arena{v: v, live: map[devicePtr]int{}, settle: b.settle, exact: o.Exact}
	b.graphs = graphs{seen: map[uint64]bool{}, known: map[uint64]*graph{}}
	if err = b.prepare(); err == nil {
		err = b.openTrace()
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("cuda: %w", err)
	}
	return b, nil
}

// prepare makes memory for results.
func (b *Backend) prepare() (err error) {
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
	var first error
	note := func(err error) {
		first = cmp.Or(first, err)
	}
	note(b.graphs.clear(b))
	b.trace.close(b.device, note)
	b.arguments.close(b.device, note)
	b.staging.close(b.device, note)
	if b.results.memory != nil {
		note(b.unpin(b.results.memory))
	}
	for _, c := range b.arena.chunks {
		note(b.memFree(c.at))
	}
	b.leave()
	note(b.device.close())
	return first
}

// Name returns the GPU's name, such as "cuda:0 NVIDIA H200".
func (b *Backend) Name() string { return fmt.Sprintf("cuda:%d %s", b.Index, b.Model) }

// MemoryFree implements backend.MemoryReporter: what new tensors could take, of what the device
// has.
func (b *Backend) MemoryFree() (free, total int, err error) {
	collectGarbage() // its unused tensors count as free memory
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(); err != nil {
		return 0, 0, err
	}
	defer b.leave()
	b.arena.collect()
	free, total, err = b.memory()
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
	runtime.AddCleanup(t, b.arena.leave, p)
	return t
}

// Write copies src to dst from row `row` on.
func (b *Backend) Write(dst *tensor.Dense, row int, src []float32) {
	backend.CheckCopy("Write", dst, row, len(src))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store(b.address(dst)+devicePtr(4*row*backend.Width(dst)), bytesOf(src))
	runtime.KeepAlive(dst)
}

// Read copies src from row `row` on to dst.
func (b *Backend) Read(dst []float32, src *tensor.Dense, row int) {
	backend.CheckCopy("Read", src, row, len(dst))
	b.mu.Lock()
	defer b.mu.Unlock()
	fetch(b, dst, b.address(src)+devicePtr(4*row*backend.Width(src)))
	b.sync()
	runtime.KeepAlive(src)
}
