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
	path string
	file *os.File

	// size and mtime are those of the file when it was opened. Another size or time later means
	// that somebody writes to it.
	size  int64
	mtime time.Time

	data   []byte // the mapping, nil for an empty file
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

// guard runs f, which reads the source's bytes. A mapped page whose file was cut off raises SIGBUS;
// guard makes that an error, because otherwise the whole process ends when somebody replaces a
// model's file. Bytes cut off within the last page read as zero without a signal, hence the check
// of the file after f. A nil source is memory, of which nothing can be cut off.
func (s *source) guard(f func()) (err error) {
	if s == nil {
		f()
		return nil
	}
	if err := s.read(f); err != nil {
		return err
	}
	return s.checkUnchanged()
}

// read is guard without the check after f. It is for the pieces of a tensor: Release makes the
// check once, where a system call for each row would be noticed.
func (s *source) read(f func()) error {
	if s == nil {
		f()
		return nil
	}
	if s.closed.Load() {
		return fmt.Errorf("%s: the set is closed", s.path)
	}
	return s.catchFault(f)
}

// checkUnchanged returns an error if the file is not what it was when it was opened.
func (s *source) checkUnchanged() error {
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

// catchFault runs f and returns an error for a memory fault within the mapping. Any other panic,
// and a fault elsewhere, goes on: it is a mistake in the program, not in the file.
func (s *source) catchFault(f func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface{ Addr() uintptr })
		if !ok || len(s.data) == 0 {
			panic(r)
		}
		base := uintptr(unsafe.Pointer(unsafe.SliceData(s.data)))
		addr := fault.Addr()
		if addr < base || addr-base >= uintptr(len(s.data)) {
			panic(r)
		}
		err = fmt.Errorf("%s: byte %d cannot be read, the file was truncated or its disk failed",
			s.path, addr-base)
	}()
	f()
	return nil
}

// close unmaps and closes the file, once: several sets may share it.
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
