// Package durable keeps the output of long runs: a folder of files or one file of lines, with a
// manifest of finished outputs. A run may stop at any point, by a signal, a full disk or a power
// cut; started again with the same settings it continues, and its output is byte for byte that of
// an uninterrupted run.
//
// Each output is written in this order: write a temporary file, fsync, rename, fsync the directory,
// then append the manifest line {index, seed, sha256} and fsync it. So a crash cannot take back an
// output that has a line, and an output without a line is made again.
package durable

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

// FS is the filesystem as used by a run. Tests inject faults here.
type FS interface {
	Mkdir(name string) error
	OpenFile(name string, flag int) (File, error)
	Rename(from, to string) error
	Link(from, to string) error            // gives a file a second name
	Remove(name string) error              // a file, or a directory that is empty
	ReadDir(name string) ([]string, error) // names, sorted
	Lstat(name string) (fs.FileInfo, error)
	SyncDir(name string) error // makes the names in a directory durable
	// Lock takes the lock file name, or fails at once if another process has it.
	Lock(name string) (unlock func() error, err error)
}

// File is an open file.
type File interface {
	io.Reader
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

// OS is the system's filesystem.
type OS struct{}

// Mkdir makes a directory.
func (OS) Mkdir(name string) error { return os.Mkdir(name, 0o777) }

// OpenFile opens a file with the flags of package os.
func (OS) OpenFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o666)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Rename replaces to.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Link makes a hard link.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Remove removes a file or an empty directory.
func (OS) Remove(name string) error { return os.Remove(name) }

// Lstat describes a file; it does not follow links.
func (OS) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// ReadDir lists a directory's names, sorted.
func (OS) ReadDir(name string) ([]string, error) {
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
func (OS) SyncDir(name string) error { return atomicfile.SyncDir(name) }

// Lock takes an flock. Unlocking removes the file; a process that is killed leaves it, unlocked.
func (OS) Lock(name string) (func() error, error) {
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
func writeFile(fsys FS, dir, name string, data []byte) (err error) {
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
func regular(fsys FS, name string) (info fs.FileInfo, exists bool, err error) {
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

// LockBeside takes the lock of the file at name, a hidden file beside it.
func LockBeside(fsys FS, name string) (unlock func() error, err error) {
	dir, base := filepath.Split(name)
	if unlock, err = fsys.Lock(filepath.Join(dir, "."+base+".lock")); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return unlock, nil
}

// readFile reads a file.
func readFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, cmp.Or(err, f.Close())
}
