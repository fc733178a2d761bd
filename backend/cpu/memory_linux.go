package cpu

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for huge pages for the whole pages in x.
func adviseHuge(x []float32) {
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(&x[0]))
	end := begin + uintptr(4*len(x))
	skip := -begin % page
	size := end&^(page-1) - (begin+page-1)&^(page-1)
	firstPage := (*byte)(unsafe.Add(unsafe.Pointer(&x[0]), skip))
	// without huge pages the kernels are only slower, so a failure is no error
	_ = unix.Madvise(unsafe.Slice(firstPage, size), unix.MADV_HUGEPAGE)
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

// unmapMemory gives back what mapMemory returned.
func unmapMemory(m []byte) { _ = unix.Munmap(m) }
