package cpu

import (
	"runtime"
	"unsafe"
)

const (
	lineBytes = 64
	hugeBytes = 2 << 20
)

// allocate returns zeroed memory that begins on a cache line. Large memory is advised to
// lie in huge pages, which spares address translations.
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

// buffer is memory that grows to the largest size asked for.
type buffer struct{ data []float32 }

// get returns n values, whose content is that of the last use.
func (b *buffer) get(n int) []float32 {
	if len(b.data) < n {
		b.data = allocate(n)
	}
	return b.data[:n]
}

// storage is memory outside the collector's heap for what lives as long as its owner, so
// that weights do not make the heap grow to twice their size before it is collected.
type storage struct {
	data   []float32
	mapped []byte
}

func newStorage(n int) *storage {
	s := &storage{}
	if 4*n >= hugeBytes {
		s.mapped = mapMemory(4 * n)
	}
	if s.mapped == nil {
		s.data = allocate(n)
		return s
	}
	s.data = unsafe.Slice((*float32)(unsafe.Pointer(&s.mapped[0])), n)
	runtime.AddCleanup(s, unmapMemory, s.mapped)
	return s
}
