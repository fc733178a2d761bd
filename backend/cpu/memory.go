package cpu

import (
	"runtime"
	"sync"
	"unsafe"
)

// Sizes in bytes.
const (
	lineBytes = 64       // a cache line
	hugeBytes = 2 << 20  // a huge page
	slabBytes = 16 << 20 // a slab, see slabs
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
	mu sync.Mutex

	// tensors and weights are the unused parts of the current slabs.
	tensors []float32
	weights storage
}

// sharesSlab reports whether n values go to a slab: smaller ones are not worth it, and larger ones
// fill huge pages of their own.
func sharesSlab(n int) bool { return 4*n >= hugeBytes/8 && 4*n < slabBytes/2 }

// newTensor returns zeroed memory on Go's heap.
func (s *slabs) newTensor(n int) []float32 {
	if !sharesSlab(n) {
		return allocate(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > len(s.tensors) {
		s.tensors = allocate(slabBytes / 4)
	}
	return cutOff(&s.tensors, n)
}

// cutOff removes the first n values from memory, and the rest of their last cache line, so that
// what is cut off next is aligned too. It returns the n values.
func cutOff(memory *[]float32, n int) []float32 {
	x := (*memory)[:n:n]
	const line = lineBytes / 4
	*memory = (*memory)[min(len(*memory), (n+line-1)/line*line):]
	return x
}

// storage is memory outside Go's heap that lives as long as its owner, so that weights do not make
// the heap grow to twice their size before a collection.
type storage struct {
	data    []float32
	mapping *mapping
}

// mapping is mapped memory, unmapped when no storage uses it any more.
type mapping struct{ bytes []byte }

// newStorage returns n zeroed values: a mapping of their own if they fill a huge page and the
// system allows it, and otherwise memory on Go's heap.
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

// newWeights returns n zeroed values for weights.
func (s *slabs) newWeights(n int) storage {
	if !sharesSlab(n) {
		return newStorage(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > len(s.weights.data) {
		s.weights = newStorage(slabBytes / 4)
	}
	return storage{cutOff(&s.weights.data, n), s.weights.mapping}
}
