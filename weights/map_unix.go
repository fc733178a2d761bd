//go:build unix

package weights

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(data []byte) error { return unix.Munmap(data) }

// releasePages drops the pages of part, which lies within the mapping, from memory; a later read
// loads them from the file again.
func releasePages(mapping, part []byte) error {
	if len(part) == 0 {
		return nil
	}
	page := os.Getpagesize()
	base := int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) -
		uintptr(unsafe.Pointer(unsafe.SliceData(mapping))))
	begin := base / page * page
	return unix.Madvise(mapping[begin:base+len(part)], unix.MADV_DONTNEED)
}
