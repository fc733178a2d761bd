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

// Sizes in bytes.
const (
	align     = 256      // alignment of every allocation
	minChunk  = 64 << 20 // least memory that is requested from the driver at a time
	chunkUnit = 2 << 20  // size of the driver's pages
	argBytes  = 1 << 20  // size of a part of the arguments
	outBytes  = 4 << 20  // size of the results

	// directBytes is the size from which copies from and to the host do not go through the list:
	// copying them to pinned memory first would cost more than sending the list early.
	directBytes = 256 << 10
)

// span is a part of the device's memory.
type span struct {
	address devicePtr
	bytes   int
}

// arena hands out memory that it takes from the driver in large chunks. All work is on one stream,
// so freed memory can be handed out at once: its next user runs after its last user.
type arena struct {
	device *device

	// chunks are the allocations of the driver.
	chunks []span

	// free are the unused parts of chunks by address; neighbours in a chunk are joined.
	free []span

	// live has the bytes of every allocation in use.
	live map[devicePtr]int

	// drain ends all work that may use freed memory.
	drain func()

	// exact makes every allocation a chunk, so that the tests' driver finds accesses beyond it.
	exact bool

	// mu guards unreferenced: allocations of tensors that the collector has found unused. Cleanups
	// append to them on a goroutine of their own.
	mu           sync.Mutex
	unreferenced []devicePtr
}

// roundUp returns the least multiple of unit that is at least n.
func roundUp(n, unit int) int { return ceilDiv(n, unit) * unit }

// allocate returns memory of unknown content. If the driver has none left, it waits for the
// collector, and then for the device, before it gives up. The context must be current.
func (a *arena) allocate(bytes int) (devicePtr, error) {
	a.releaseUnreferenced()
	bytes = max(roundUp(bytes, align), align)
	if p, ok := a.takeSpan(bytes); ok {
		return p, nil
	}

	err := a.addChunk(bytes)
	if isOutOfMemory(err) {
		// tensors that nothing refers to may be waiting for the collector
		collectGarbage()
		a.releaseUnreferenced()
		if p, ok := a.takeSpan(bytes); ok {
			return p, nil
		}

		// unused chunks may be too small each, and the driver can join them
		a.drain()
		a.returnChunks()
		err = a.addChunk(bytes)
	}
	if err != nil {
		return 0, err
	}
	p, _ := a.takeSpan(bytes)
	return p, nil
}

// takeSpan takes bytes from the smallest free span that is large enough; ok is false if none is.
func (a *arena) takeSpan(bytes int) (p devicePtr, ok bool) {
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
	p = s.address
	s.address += devicePtr(bytes)
	s.bytes -= bytes
	if s.bytes == 0 {
		a.free = slices.Delete(a.free, best, best+1)
	}
	a.live[p] = bytes
	return p, true
}

// release frees memory and joins it with its neighbours. It does nothing for memory that is not
// live, such as what Free has freed before the collector came.
func (a *arena) release(p devicePtr) {
	bytes, ok := a.live[p]
	if !ok {
		return
	}
	delete(a.live, p)
	i, _ := slices.BinarySearchFunc(a.free, p,
		func(s span, p devicePtr) int { return int(s.address) - int(p) })
	a.free = slices.Insert(a.free, i, span{p, bytes})
	a.joinSpans(i)
	if i > 0 {
		a.joinSpans(i - 1)
	}
}

// joinSpans makes one span of free spans i and i+1 if they touch within a chunk.
func (a *arena) joinSpans(i int) {
	if i+1 >= len(a.free) {
		return
	}
	s := &a.free[i]
	next := a.free[i+1]
	touch := s.address+devicePtr(s.bytes) == next.address
	beginsChunk := slices.ContainsFunc(a.chunks,
		func(c span) bool { return c.address == next.address })
	if !touch || beginsChunk {
		return
	}
	s.bytes += next.bytes
	a.free = slices.Delete(a.free, i+1, i+2)
}

// releaseUnreferenced releases the memory that cleanups have freed.
func (a *arena) releaseUnreferenced() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.unreferenced {
		a.release(p)
	}
	a.unreferenced = a.unreferenced[:0]
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

// releaseLater has the next allocation release p. Cleanups call it on a goroutine of their own,
// where nothing else of the arena may be touched.
func (a *arena) releaseLater(p devicePtr) {
	a.mu.Lock()
	a.unreferenced = append(a.unreferenced, p)
	a.mu.Unlock()
}

// addChunk takes a chunk of at least `bytes` bytes from the driver: a large one, which several
// allocations share, or else one of just this size.
func (a *arena) addChunk(bytes int) error {
	size := bytes
	if !a.exact {
		size = max(roundUp(bytes, chunkUnit), minChunk)
	}
	p, err := a.device.memAlloc(size)
	if isOutOfMemory(err) && size > bytes {
		size = bytes
		p, err = a.device.memAlloc(size)
	}
	if err != nil {
		return err
	}
	c := span{p, size}
	a.chunks = append(a.chunks, c)
	i, _ := slices.BinarySearchFunc(a.free, p,
		func(s span, p devicePtr) int { return int(s.address) - int(p) })
	a.free = slices.Insert(a.free, i, c)
	return nil
}

// returnChunks returns unused chunks to the driver.
func (a *arena) returnChunks() {
	a.chunks = slices.DeleteFunc(a.chunks, func(c span) bool {
		i := slices.Index(a.free, c)
		if i < 0 || a.device.memFree(c.address) != nil {
			return false
		}
		a.free = slices.Delete(a.free, i, i+1)
		return true
	})
}

// memAlloc takes memory from the driver. If there is too little, the error says how much was
// wanted, how much is free and what helps.
func (v *device) memAlloc(bytes int) (devicePtr, error) {
	code := v.callCode(cuMemAlloc, uintptr(unsafe.Pointer(&v.out.a)), uintptr(bytes))
	if code == 0 {
		return devicePtr(v.out.a), nil
	}
	detail := ""
	if code == outOfMemory {
		free, total, _ := v.memoryInfo()
		detail = fmt.Sprintf("%s wanted, %s of %s free; a smaller --batch needs less",
			gigabytes(bytes), gigabytes(free), gigabytes(total))
	}
	return 0, v.callError(cuMemAlloc, code, detail)
}

func (v *device) memFree(p devicePtr) error { return v.call(cuMemFree, uintptr(p)) }

// memoryInfo returns the bytes of the device's memory: free, and in all.
func (v *device) memoryInfo() (free, total int, err error) {
	err = v.call(cuMemGetInfo, uintptr(unsafe.Pointer(&v.out.a)), uintptr(unsafe.Pointer(&v.out.b)))
	return int(v.out.a), int(v.out.b), err
}

// gigabytes returns bytes for an error, in units of 1e9.
func gigabytes(bytes int) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) }

// isOutOfMemory reports whether a call of the driver failed for want of memory.
func isOutOfMemory(err error) bool {
	e, ok := err.(*backend.DeviceError)
	return ok && e.Code == outOfMemory
}

// must panics if a driver's call failed. Kernels return no errors; backend.Recover turns the panic
// into one at the end of a pass.
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

// scratchMemory is device memory that grows to the largest requested size.
type scratchMemory struct {
	address devicePtr
	bytes   int
}

// scratch returns m's memory, at least `bytes` bytes of unknown content. The caller holds b.mu.
func (b *Backend) scratch(m *scratchMemory, bytes int) devicePtr {
	if m.bytes < bytes {
		if m.address != 0 {
			b.arena.release(m.address)
			*m = scratchMemory{}
		}
		*m = scratchMemory{b.allocate(bytes), bytes}
	}
	return m.address
}

// pinned is host memory that the device can access directly.
type pinned []byte

// pin allocates pinned memory.
func (v *device) pin(bytes int) (pinned, error) {
	err := v.call(cuMemAllocHost, uintptr(unsafe.Pointer(&v.out.a)), uintptr(bytes))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&v.out.a)), bytes), nil
}

// unpin frees pinned memory.
func (v *device) unpin(p pinned) error {
	return v.call(cuMemFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(p))))
}

// contains reports whether p is memory of the arena.
func (a *arena) contains(p devicePtr) bool {
	return slices.ContainsFunc(a.chunks,
		func(c span) bool { return p >= c.address && p < c.address+devicePtr(c.bytes) })
}
