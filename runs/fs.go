package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gofrs/flock"

	"unmask/internal/atomicfile"
)

// fileSystem is the filesystem as used by a run. Tests inject faults here.
type fileSystem interface {
	Mkdir(name string) error
	OpenFile(name string, flag int) (openFile, error)
	Rename(from, to string) error
	Link(from, to string) error            // gives a file a second name
	Remove(name string) error              // a file, or a directory that is empty
	ReadDir(name string) ([]string, error) // names, sorted
	Lstat(name string) (fs.FileInfo, error)
	SyncDir(name string) error // makes the names in a directory durable
	// Lock takes the lock file name, or fails at once if another process has it.
	Lock(name string) (unlock func() error, err error)
}

// openFile is an open file.
type openFile interface {
	io.Reader
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

// osFiles is the system's filesystem.
type osFiles struct{}

// Mkdir makes a directory.
func (osFiles) Mkdir(name string) error { return os.Mkdir(name, 0o777) }

// OpenFile opens a file with the flags of package os.
func (osFiles) OpenFile(name string, flag int) (openFile, error) {
	f, err := os.OpenFile(name, flag, 0o666)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Rename replaces to.
func (osFiles) Rename(from, to string) error { return os.Rename(from, to) }

// Link makes a hard link.
func (osFiles) Link(from, to string) error { return os.Link(from, to) }

// Remove removes a file or an empty directory.
func (osFiles) Remove(name string) error { return os.Remove(name) }

// Lstat describes a file; it does not follow links.
func (osFiles) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// ReadDir lists a directory's names, sorted.
func (osFiles) ReadDir(name string) ([]string, error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names, nil
}

// SyncDir makes the names in a directory
func (osFiles) SyncDir(name string) error { return atomicfile.SyncDir(name) }

// Lock takes an flock. Unlocking removes the file; a process that is killed leaves it, unlocked.
func (osFiles) Lock(name string) (func() error, error) {
	l := flock.New(name)
	ok, err := l.TryLock()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errLocked
	}
	return func() error {
		if runtime.GOOS == "windows" { // an open file cannot be removed there
			return cmp.Or(l.Close(), ignoreMissing(os.Remove(name)))
		}
		return cmp.Or(os.Remove(name), l.Close())
	}, nil
}

var errLocked = errors.New("another process is writing it")

// writeFile writes data under name in the durable order. After an error it leaves no temporary
// file, if the filesystem allows to remove it, and the error names name.
func writeFile(fsys fileSystem, dir, name string, data []byte) (err error) {
	tmp := filepath.Join(dir, temporary(name))
	defer func() { err = atomicfile.WithoutTempName(filepath.Join(dir, name), err) }()
	f, err := fsys.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if err = cmp.Or(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, filepath.Join(dir, name))
	}
	if err != nil {
		_ = fsys.Remove(tmp) // the first error is returned
		return err
	}
	return fsys.SyncDir(dir)
}

func temporary(name string) string { return "." + name + ".tmp" }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// regular returns an error for anything but a regular file; exists is false if there is nothing.
func regular(fsys fileSystem, name string) (info fs.FileInfo, exists bool, err error) {
	info, err = fsys.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !info.Mode().IsRegular():
		return nil, true, fmt.Errorf("%s is a %s, want a regular file", name, atomicfile.Kind(info))
	}
	return info, true, nil
}

// lockBeside takes the lock of the file at name, a hidden file beside it.
func lockBeside(fsys fileSystem, name string) (unlock func() error, err error) {
	dir, base := filepath.Split(name)
	if unlock, err = fsys.Lock(filepath.Join(dir, "."+base+".lock")); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return unlock, nil
}

// readFile reads a file.
func readFile(fsys fileSystem, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, cmp.Or(err, f.Close())
}
