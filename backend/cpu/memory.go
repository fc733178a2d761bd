package cpu

import (
	"runtime"
	"sync"
	"unsafe"
)

const (
	lineBytes = 64
	hugeBytes = 2 << 20
	slabBytes = 16 << 20
)

// allocate returns zeroed memory aligned to a cache line. Large memory is advised to use huge
// pages, which saves address translations.
func allocate(n int) []float32 {
	const line = lineBytes / 4
	x := make([]float32, n+line-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(x))) % lineBytes / 4)
	x = x[skip : skip+n : skip+n]
	if 4*n >= 2*hugeBytes {
		adviseHuge(x)
	}
	return x
}

// buffer is memory that grows to the largest requested size.
type buffer struct{ data []float32 }

// get returns n values with the content of the last use.
func (b *buffer) get(n int) []float32 {
	if len(b.data) < n {
		b.data = allocate(n)
	}
	return b.data[:n]
}

// slabs allocate tensors and weights. A matrix of a few megabytes fills few huge pages by itself,
// so several share a slab. A slab lives as long as any matrix in it.
type slabs struct {
	mu      sync.Mutex
	tensors []float32 // the rest of a slab
	weights storage
}

// shares reports whether n values go to a slab: smaller ones are not worth it, and larger ones fill
// huge pages of their own.
func shares(n int) bool { return 4*n >= hugeBytes/8 && 4*n < slabBytes/2 }

// tensor returns zeroed memory on Go's heap.
func (s *slabs) tensor(n int) []float32 {
	if !shares(n) {
		return allocate(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > len(s.tensors) {
		s.tensors = allocate(slabBytes / 4)
	}
	return take(&s.tensors, n)
}

// take cuts off n values and the rest of their last cache line.
func take(from *[]float32, n int) []float32 {
	x := (*from)[:n:n]
	const line = lineBytes / 4
	*from = (*from)[min(len(*from), (n+line-1)/line*line):]
	return x
}

// storage is memory outside Go's heap that lives as long as its owner, so that weights do not make
// the heap grow to twice their size before a collection.
type storage struct {
	data []float32
	of   *mapping
}

// mapping is mapped memory, unmapped when no storage uses it any more.
type mapping struct{ bytes []byte }

func newStorage(n int) storage {
	if 4*n < hugeBytes {
		return storage{data: allocate(n)}
	}
	m := &mapping{mapMemory(4 * n)}
	if m.bytes == nil {
		return storage{data: allocate(n)}
	}
	runtime.AddCleanup(m, unmapMemory, m.bytes)
	return storage{unsafe.Slice((*float32)(unsafe.Pointer(&m.bytes[0])), n), m}
}

// storage returns zeroed memory for weights.
func (s *slabs) storage(n int) storage {
	if !shares(n) {
		return newStorage(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > len(s.weights.data) {
		s.weights = newStorage(slabBytes / 4)
	}
	return storage{take(&s.weights.data, n), s.weights.of}
}
