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

	// Link gives a file a second name.
	Link(from, to string) error

	// Remove removes a file, or a directory that is empty.
	Remove(name string) error

	// ReadDir returns the names in a directory, sorted.
	ReadDir(name string) ([]string, error)

	Lstat(name string) (fs.FileInfo, error)

	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error

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

// Rename replaces newName.
func (osFiles) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Link makes a hard link.
func (osFiles) Link(oldName, newName string) error { return os.Link(oldName, newName) }

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

// SyncDir makes the names in a directory durable.
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
	unlock := func() error {
		if runtime.GOOS == "windows" { // an open file cannot be removed there
			closeErr := l.Close()
			removeErr := ignoreMissing(os.Remove(name))
			return cmp.Or(closeErr, removeErr)
		}
		// Removed after closing, it could be the lock of a process that came between.
		removeErr := os.Remove(name)
		closeErr := l.Close()
		return cmp.Or(removeErr, closeErr)
	}
	return unlock, nil
}

var errLocked = errors.New("another process is writing it")

// writeFile writes data under name in the durable order. After an error it leaves no temporary
// file, if the filesystem allows to remove it, and the error names name.
func writeFile(fsys fileSystem, dir, name string, data []byte) error {
	temporary := filepath.Join(dir, temporaryName(name))
	f, err := fsys.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err == nil {
		err = writeAndRename(fsys, f, temporary, filepath.Join(dir, name), data)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	return atomicfile.WithoutTempName(filepath.Join(dir, name), err)
}

// writeAndRename writes data to the temporary file f and gives it its name.
func writeAndRename(fsys fileSystem, f openFile, temporary, name string, data []byte) error {
	_, err := f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	closeErr := f.Close()
	err = cmp.Or(err, closeErr)
	if err == nil {
		err = fsys.Rename(temporary, name)
	}
	if err != nil {
		_ = fsys.Remove(temporary) // the first error is returned
	}
	return err
}

// temporaryName returns the name of a file while it is written.
func temporaryName(name string) string { return "." + name + ".tmp" }

// ignoreMissing returns err, or nil if it says that a file does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// statRegular describes a regular file. exists is false if there is nothing of that name; anything
// but a regular file is an error.
func statRegular(fsys fileSystem, name string) (info fs.FileInfo, exists bool, err error) {
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
	unlock, err = fsys.Lock(filepath.Join(dir, "."+base+".lock"))
	if err != nil {
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
	closeErr := f.Close()
	return data, cmp.Or(err, closeErr)
}
