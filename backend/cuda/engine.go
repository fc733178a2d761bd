//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// The rest of gorgonia's tensor.Engine follows. A tensor made with this engine is in device memory.
// gorgonia's own operations access values directly and do not work on it, but matrix products do,
// and Accessible copies the values to the host.

// deviceBlock is memory in gorgonia's form.
type deviceBlock struct {
	address uintptr
	bytes   uintptr
}

func (m deviceBlock) Uintptr() uintptr { return m.address }
func (m deviceBlock) MemSize() uintptr { return m.bytes }

// AllocAccessible returns false: Go cannot access what Alloc returns.
func (b *Backend) AllocAccessible() bool { return false }

// NonStdAlloc marks that memory comes from Alloc.
func (b *Backend) NonStdAlloc() {}

// WorksWith reports that matrices may be contiguous by rows or by columns.
func (b *Backend) WorksWith(order tensor.DataOrder) bool { return order.IsContiguous() }

// Alloc returns zeroed device memory, which lives until Free.
func (b *Backend) Alloc(size int64) (_ tensor.Memory, err error) {
	defer backend.Recover(&err)
	if size < 0 {
		return nil, fmt.Errorf("cuda: Alloc: %d bytes", size)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.allocate(int(size))
	b.zero(p, int(size))
	return deviceBlock{uintptr(p), uintptr(size)}, nil
}

// Free frees memory of Alloc.
func (b *Backend) Free(m tensor.Memory, _ int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := devicePtr(m.Uintptr())
	if _, ok := b.arena.live[p]; !ok {
		return fmt.Errorf("cuda: Free: %#x was not allocated", m.Uintptr())
	}
	b.arena.release(p)
	return nil
}

// Memclr fills memory with zeros.
func (b *Backend) Memclr(m tensor.Memory) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.zero(devicePtr(m.Uintptr()), int(m.MemSize()))
}

// Memset fills memory with a float32.
func (b *Backend) Memset(m tensor.Memory, value interface{}) (err error) {
	defer backend.Recover(&err)
	v, ok := value.(float32)
	if !ok || m.MemSize()%4 != 0 {
		return fmt.Errorf("cuda: Memset: %T in %d bytes, want float32", value, m.MemSize())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store(devicePtr(m.Uintptr()), bytesOf(slices.Repeat([]float32{v}, int(m.MemSize()/4))))
	return nil
}

// Memcpy copies the smaller number of bytes of both. Each may be in device memory or in Go's.
func (b *Backend) Memcpy(dst, src tensor.Memory) (err error) {
	defer backend.Recover(&err)
	n := int(min(dst.MemSize(), src.MemSize()))
	if n == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	target := devicePtr(dst.Uintptr())
	source := devicePtr(src.Uintptr())
	toDevice := b.arena.contains(target)
	fromDevice := b.arena.contains(source)
	switch {
	case toDevice && fromDevice:
		b.copy(target, source, n)
	case toDevice:
		b.store(target, hostBytes(src, n))
	case fromDevice:
		fetch(b, hostBytes(dst, n), source)
		b.sync()
	default:
		copy(hostBytes(dst, n), hostBytes(src, n))
	}
	return nil
}

// hostBytes returns the first n bytes of Go's memory. The detour over a pointer to the address
// keeps vet from taking the conversion for a mistake: m keeps the memory alive and in place.
func hostBytes(m tensor.Memory, n int) []byte {
	address := m.Uintptr()
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// Accessible returns a copy of device memory in Go's memory.
func (b *Backend) Accessible(m tensor.Memory) (_ tensor.Memory, err error) {
	defer backend.Recover(&err)
	c := &hostCopy{data: make([]byte, m.MemSize())}
	return c, b.Memcpy(c, m)
}

// hostCopy is a copy of device memory.
type hostCopy struct{ data []byte }

func (c *hostCopy) Uintptr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(c.data))) }
func (c *hostCopy) MemSize() uintptr { return uintptr(len(c.data)) }
