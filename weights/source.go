package weights

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"unmask/internal/atomicfile"
)

// source is an open file whose bytes are mapped, or read where the system cannot map.
type source struct {
	path   string
	file   *os.File
	size   int64
	mtime  time.Time
	data   []byte
	closed atomic.Bool
}

// openSource maps the regular file at path.
func openSource(path string) (*source, error) {
	f, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != int64(int(info.Size())) {
		err = fmt.Errorf("%s: %d bytes do not fit the address space", path, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &source{path: path, file: f, size: info.Size(), mtime: info.ModTime()}
	if s.size > 0 {
		if s.data, err = mapFile(f, int(s.size)); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, nil
}

// guard runs f, which reads the source's bytes. A mapped page whose file was
// cut off raises SIGBUS; guard makes that an error. Bytes cut off within the
// last page read as zero without a signal, hence the check of the file after.
func (s *source) guard(f func()) (err error) {
	if s == nil {
		f()
		return nil
	}
	if err := s.read(f); err != nil {
		return err
	}
	return s.unchanged()
}

// read is guard without the check after it, for pieces of a tensor: Release makes it once.
func (s *source) read(f func()) error {
	if s == nil {
		f()
		return nil
	}
	if s.closed.Load() {
		return fmt.Errorf("%s: the set is closed", s.path)
	}
	return s.fault(f)
}

// unchanged compares the file with what it was when it was opened.
func (s *source) unchanged() error {
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	if info.Size() != s.size {
		return fmt.Errorf("%s: file changed from %d to %d bytes while it was read", s.path, s.size,
			info.Size())
	}
	if !info.ModTime().Equal(s.mtime) {
		return fmt.Errorf("%s: file changed while it was read", s.path)
	}
	return nil
}

// fault runs f and returns an error for a memory fault within the mapping.
func (s *source) fault(f func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if e, ok := r.(interface{ Addr() uintptr }); ok && len(s.data) > 0 {
			base := uintptr(unsafe.Pointer(unsafe.SliceData(s.data)))
			if a := e.Addr(); a >= base && a-base < uintptr(len(s.data)) {
				err = fmt.Errorf("%s: byte %d cannot be read, the file was truncated or its disk failed",
					s.path, a-base)
				return
			}
		}
		panic(r)
	}()
	f()
	return nil
}

func (s *source) close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var err error
	if s.data != nil {
		err = unmapFile(s.data)
	}
	return cmp.Or(err, s.file.Close())
}
