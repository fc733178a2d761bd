//go:build unix

package weights

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps the file for reading. The mapping is shared: processes that serve one model have one
// copy of its pages.
func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

// unmapFile gives back what mapFile returned.
func unmapFile(data []byte) error { return unix.Munmap(data) }

// releasePages drops the pages of part, which lies within the mapping, from memory; a later read
// loads them from the file again.
func releasePages(mapping, part []byte) error {
	if len(part) == 0 {
		return nil
	}
	offset := int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) -
		uintptr(unsafe.Pointer(unsafe.SliceData(mapping))))
	page := os.Getpagesize()
	begin := offset / page * page // madvise takes whole pages only
	return unix.Madvise(mapping[begin:offset+len(part)], unix.MADV_DONTNEED)
}
