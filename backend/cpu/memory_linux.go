package cpu

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for huge pages for the whole pages in x.
func adviseHuge(x []float32) {
	page := uintptr(os.Getpagesize())
	p, end := uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&x[0]))+uintptr(4*len(x))
	skip, size := -p%page, end&^(page-1)-(p+page-1)&^(page-1)
	at := (*byte)(unsafe.Add(unsafe.Pointer(&x[0]), skip))
	// without them the kernels are only slower
	_ = unix.Madvise(unsafe.Slice(at, size), unix.MADV_HUGEPAGE)
}

// mapMemory returns zeroed pages, nil if the system refuses.
func mapMemory(bytes int) []byte {
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	return m
}

func unmapMemory(m []byte) { _ = unix.Munmap(m) }
