//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
	"unsafe"

	"unmask/backend"
)

const (
	align     = 256       // of every allocation, in bytes
	minChunk  = 64 << 20  // bytes requested from the driver at a time
	chunkUnit = 2 << 20   // size of the driver's pages
	argBytes  = 1 << 20   // size of a part of the arguments
	outBytes  = 4 << 20   // size of the results
	direct    = 256 << 10 // bytes from which copies from and to the host do not go through the list
)

// span is a part of the device's memory.
type span struct {
	at    devicePtr
	bytes int
}

// arena hands out memory that it takes from the driver in large chunks. All work is on one stream,
// so freed memory can be handed out at once: its next user runs after its last user.
type arena struct {
	v      *device
	chunks []span
	free   []span // by address; neighbours in a chunk are joined
	live   map[devicePtr]int
	settle func() // ends all work that may use freed memory
	exact  bool   // every allocation is a chunk, so the tests' driver finds accesses beyond it

	mu   sync.Mutex // guards gone, which cleanups append to
	gone []devicePtr
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// allocate returns memory of unknown content.
func (a *arena) allocate(bytes int) (devicePtr, error) {
	a.collect()
	bytes = max(roundUp(bytes, align), align)
	if p, ok := a.take(bytes); ok {
		return p, nil
	}
	err := a.grow(bytes)
	if isOutOfMemory(err) { // tensors that nothing refers to may be waiting for the collector
		collectGarbage()
		a.collect()
		if p, ok := a.take(bytes); ok {
			return p, nil
		}
		a.settle()
		a.shrink()
		err = a.grow(bytes)
	}
	if err != nil {
		return 0, err
	}
	p, _ := a.take(bytes)
	return p, nil
}

// take finds the smallest free span that is large enough.
func (a *arena) take(bytes int) (devicePtr, bool) {
	best := -1
	for i, s := range a.free {
		if s.bytes >= bytes && (best < 0 || s.bytes < a.free[best].bytes) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	s := &a.free[best]
	p := s.at
	s.at += devicePtr(bytes)
	s.bytes -= bytes
	if s.bytes == 0 {
		a.free = slices.Delete(a.free, best, best+1)
	}
	a.live[p] = bytes
	return p, true
}

// release frees memory and joins it with its neighbours.
func (a *arena) release(p devicePtr) {
	bytes, ok := a.live[p]
	if !ok {
		return
	}
	delete(a.live, p)
	i, _ := slices.BinarySearchFunc(a.free, p,
		func(s span, p devicePtr) int { return int(s.at) - int(p) })
	a.free = slices.Insert(a.free, i, span{p, bytes})
	a.join(i)
	if i > 0 {
		a.join(i - 1)
	}
}

// join makes one span of free spans i and i+1 if they touch within a chunk.
func (a *arena) join(i int) {
	if i+1 >= len(a.free) {
		return
	}
	s, next := &a.free[i], a.free[i+1]
	if s.at+devicePtr(s.bytes) != next.at ||
		slices.ContainsFunc(a.chunks, func(c span) bool { return c.at == next.at }) {
		return
	}
	s.bytes += next.bytes
	a.free = slices.Delete(a.free, i+1, i+2)
}

// collect releases the memory that cleanups have freed.
func (a *arena) collect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.gone {
		a.release(p)
	}
	a.gone = a.gone[:0]
}

// collectGarbage runs the collector and waits for the cleanups of what it found. They run in
// parallel, in no order, so that one of them has ended says nothing of the others.
func collectGarbage() {
	runtime.GC()
	counts := []metrics.Sample{
		{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"},
	}
	metrics.Read(counts)
	queued := counts[0].Value.Uint64()
	for range 10_000 { // a second: other cleanups may be slow
		if counts[1].Value.Uint64() >= queued {
			return
		}
		time.Sleep(100 * time.Microsecond)
		metrics.Read(counts[1:])
	}
}

// leave frees memory later. Cleanups call it, on another goroutine.
func (a *arena) leave(p devicePtr) {
	a.mu.Lock()
	a.gone = append(a.gone, p)
	a.mu.Unlock()
}

// grow takes a chunk of at least `bytes` bytes from the driver.
func (a *arena) grow(bytes int) error {
	size := bytes
	if !a.exact {
		size = max(roundUp(bytes, chunkUnit), minChunk)
	}
	p, err := a.v.memAlloc(size)
	if isOutOfMemory(err) && size > bytes {
		size = bytes
		p, err = a.v.memAlloc(size)
	}
	if err != nil {
		return err
	}
	c := span{p, size}
	a.chunks = append(a.chunks, c)
	i, _ := slices.BinarySearchFunc(a.free, p,
		func(s span, p devicePtr) int { return int(s.at) - int(p) })
	a.free = slices.Insert(a.free, i, c)
	return nil
}

// shrink returns unused chunks to the driver.
func (a *arena) shrink() {
	a.chunks = slices.DeleteFunc(a.chunks, func(c span) bool {
		i := slices.Index(a.free, c)
		if i < 0 || a.v.memFree(c.at) != nil {
			return false
		}
		a.free = slices.Delete(a.free, i, i+1)
		return true
	})
}

func (v *device) memAlloc(bytes int) (devicePtr, error) {
	code := v.code(cuMemAlloc, uintptr(unsafe.Pointer(&v.out.a)), uintptr(bytes))
	if code == 0 {
		return devicePtr(v.out.a), nil
	}
	detail := ""
	if code == outOfMemory {
		free, total, _ := v.memory()
		detail = fmt.Sprintf("%s wanted, %s of %s free; a smaller --batch needs less", gigabytes(bytes),
			gigabytes(free), gigabytes(total))
	}
	return 0, v.failure(cuMemAlloc, code, detail)
}

func (v *device) memFree(p devicePtr) error { return v.call(cuMemFree, uintptr(p)) }

// memory returns the bytes of the device's memory: free, and in all.
func (v *device) memory() (free, total int, err error) {
	err = v.call(cuMemGetInfo, uintptr(unsafe.Pointer(&v.out.a)), uintptr(unsafe.Pointer(&v.out.b)))
	return int(v.out.a), int(v.out.b), err
}

func gigabytes(bytes int) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) }

func isOutOfMemory(err error) bool {
	e, ok := err.(*backend.DeviceError)
	return ok && e.Code == outOfMemory
}

// must panics if a driver's call failed.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// allocate returns memory of unknown content that lives until release. The caller holds b.mu.
func (b *Backend) allocate(bytes int) devicePtr {
	must(b.enter())
	defer b.leave()
	p, err := b.arena.allocate(bytes)
	must(err)
	return p
}

// memory is device memory that grows to the largest requested size.
type memory struct {
	at    devicePtr
	bytes int
}

// scratch returns m's memory, at least `bytes` bytes of unknown content. The caller holds b.mu.
func (b *Backend) scratch(m *memory, bytes int) devicePtr {
	if m.bytes < bytes {
		if m.at != 0 {
			b.arena.release(m.at)
			*m = memory{}
		}
		*m = memory{b.allocate(bytes), bytes}
	}
	return m.at
}

// pinned is host memory that the device can access directly.
type pinned []byte

func (v *device) pin(bytes int) (pinned, error) {
	if err := v.call(cuMemAllocHost, uintptr(unsafe.Pointer(&v.out.a)), uintptr(bytes)); err != nil {
		return nil, err
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&v.out.a)), bytes), nil
}

func (v *device) unpin(p pinned) error {
	return v.call(cuMemFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(p))))
}

// has reports whether p is memory of the arena.
func (a *arena) has(p devicePtr) bool {
	return slices.ContainsFunc(a.chunks,
		func(c span) bool { return p >= c.at && p < c.at+devicePtr(c.bytes) })
}
