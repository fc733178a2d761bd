// Package atomicfile writes files that are complete after a crash, or absent.
package atomicfile

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"unmask/internal/textfile"
)

// WriteFile replaces name by the output of write, whole or not at all; see File.
func WriteFile(name string, write func(io.Writer) error) error {
	return writeMode(name, 0o666, write)
}

// WritePrivate is WriteFile of a file that its owner alone can read, from the first byte on.
func WritePrivate(name string, write func(io.Writer) error) error {
	return writeMode(name, 0o600, write)
}

// writeMode writes a file of a mode by write. If that fails, the file under the name stays as it
// was.
func writeMode(name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := createMode(name, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// Put replaces name by data, whole or not at all, and makes its directory.
func Put(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return WriteFile(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// File is a file being written. It is written to a hidden file beside its name, and appears under
// its name when Commit returns; until then, and after an error, the old file stays. A process that
// is killed leaves the hidden file; a later Create of the same name removes it, once nobody has
// written to it for a day. One goroutine at a time.
type File struct {
	// name is the file's name after Commit, tmp the hidden one before; "" after Commit or Discard.
	name string
	tmp  string

	file *os.File
	w    *bufio.Writer
}

// Create begins a file at name, in an existing directory. It returns an error if something other
// than a regular file has that name.
func Create(name string) (*File, error) { return createMode(name, 0o666) }

// createMode creates the hidden file beside name, which Commit renames. It removes those that
// processes left behind which did not get so far.
func createMode(name string, mode fs.FileMode) (*File, error) {
	if err := Check(name); err != nil {
		return nil, err
	}
	dir, base := filepath.Split(name)
	removeLeftovers(filepath.Clean(dir), base)
	tmp := filepath.Join(dir, "."+base+"."+rand.Text()[:randomLetters]+tmpSuffix)
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, WithoutTempName(name, err)
	}
	hidden.set(tmp, true)
	return &File{name: name, tmp: tmp, file: file, w: bufio.NewWriterSize(file, 1<<16)}, nil
}

// A hidden file is .NAME.RANDOM.tmp.
const (
	tmpSuffix     = ".tmp"
	randomLetters = 8
)

// Check returns an error if something other than a regular file is at name.
func Check(name string) error {
	if err := checkDash(name); err != nil {
		return err
	}
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return nil
	}
	return fmt.Errorf("%s is a %s, want a file", name, Kind(info))
}

// CheckPlace is Check of a file whose directory must exist already, as Create needs it. Commands
// call it before their work, so that hours of it are not lost to a misspelt path.
func CheckPlace(name string) error {
	if err := Check(name); err != nil {
		return err
	}
	return checkParent(name)
}

// CheckFolder returns an error if name cannot become a directory: something else has that name, or
// the directory around it is missing.
func CheckFolder(name string) error {
	if err := checkDash(name); err != nil {
		return err
	}
	info, err := os.Lstat(filepath.Clean(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkParent(name)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is a %s, want a directory", name, Kind(info))
	}
	return nil
}

// checkDash refuses -, which means standard output to other programs: who writes it wants no file
// of that name.
func checkDash(name string) error {
	if name == "-" {
		return errors.New("the name is -, want a path, such as ./- for a file of that name")
	}
	return nil
}

// checkParent returns an error if the directory around name is missing.
func checkParent(name string) error {
	dir := filepath.Dir(filepath.Clean(name))
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %s is missing, want one for %s", dir, name)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is a %s, want a directory for %s", dir, Kind(info), name)
	}
	return nil
}

// Open opens a regular file for reading, and returns an error for anything else: opening a pipe
// would wait for a writer, and some special files never end.
func Open(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: WithoutPath(err)}
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s, want a file", name, Kind(info))
	}
	return os.Open(name)
}

// folder is a directory whose regular files alone can be opened.
type folder struct{ fs.FS }

// DirFS is os.DirFS, but opening a pipe or a device is an error at once: it could wait for ever.
func DirFS(dir string) fs.FS { return folder{os.DirFS(dir)} }

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	info, err := fs.Stat(f.FS, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{
			Op:   "open",
			Path: name,
			Err:  fmt.Errorf("it is a %s, want a file", Kind(info)),
		}
	}
	return f.FS.Open(name)
}

// Stat implements fs.StatFS.
func (f folder) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.FS, name) }

// ReadFile reads a regular file whole, and refuses anything else.
func ReadFile(name string) ([]byte, error) { return ReadBounded(name, math.MaxInt64-1) }

// ReadBounded is ReadFile of a file of at most maxBytes bytes. A larger one is an error.
func ReadBounded(name string, maxBytes int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	return readAll(f, maxBytes)
}

// ReadSmall is ReadBounded of a text in a file, a pipe or a device, without a byte order mark. The
// bound matters there: some special files never end.
func ReadSmall(name string, maxBytes int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := readAll(f, maxBytes)
	return textfile.TrimMark(data), err
}

// readAll reads and closes f.
func readAll(f *os.File, maxBytes int64) ([]byte, error) {
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && int64(len(data)) > maxBytes {
		err = fmt.Errorf("%s has more than %d bytes, want at most that", f.Name(), maxBytes)
	}
	return data, err
}

// Kind returns what a path leads to, for errors: file, directory, link or special file.
func Kind(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "directory"
	case info.Mode()&fs.ModeSymlink != 0:
		return "link"
	case info.Mode().IsRegular():
		return "file"
	}
	return "special file"
}

// removeLeftovers removes hidden files of base that killed processes have left. It spares those of
// the last day, because another process may still be writing them.
func removeLeftovers(dir, base string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // Create reports the error
	}
	for _, e := range entries {
		middle, isOfBase := strings.CutPrefix(e.Name(), "."+base+".")
		random, isTemp := strings.CutSuffix(middle, tmpSuffix)
		if !isOfBase || !isTemp || len(random) != randomLetters || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	return n, WithoutTempName(f.name, err)
}

// WriteAt implements io.WriterAt. It overwrites what Write has written, such as a header that is
// known only at the end.
func (f *File) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.w.Flush(); err != nil {
		return 0, WithoutTempName(f.name, err)
	}
	n, err := f.file.WriteAt(p, offset)
	return n, WithoutTempName(f.name, err)
}

// Name returns the name that Commit gives the file.
func (f *File) Name() string { return f.name }

// Commit syncs the file, renames it, and syncs the directory.
func (f *File) Commit() error { return f.CommitAs(f.name) }

// CommitAs is Commit under another name in the same directory.
func (f *File) CommitAs(name string) error { return WithoutTempName(name, f.commit(name)) }

func (f *File) commit(name string) error {
	if f.tmp == "" {
		return fs.ErrClosed
	}
	defer f.Discard()

	// Without the sync, a crash after the rename could leave an empty file under the name.
	flushErr := f.w.Flush()
	syncErr := f.file.Sync()
	closeErr := f.file.Close()
	if err := cmp.Or(flushErr, syncErr, closeErr); err != nil {
		return err
	}
	if err := os.Rename(f.tmp, name); err != nil {
		return err
	}
	hidden.set(f.tmp, false)
	f.tmp = ""
	return SyncDir(filepath.Dir(name))
}

// Discard removes a file that was not committed; otherwise it does nothing.
func (f *File) Discard() {
	if f == nil || f.tmp == "" {
		return
	}
	f.file.Close()
	os.Remove(f.tmp)
	hidden.set(f.tmp, false)
	f.tmp = ""
}

// hiddenFiles are the hidden files that this process is writing, for DiscardAll.
type hiddenFiles struct {
	sync.Mutex
	names map[string]bool
}

var hidden = hiddenFiles{names: map[string]bool{}}

// set records that a hidden file exists or does not exist any more.
func (h *hiddenFiles) set(name string, exists bool) {
	h.Lock()
	defer h.Unlock()
	if exists {
		h.names[name] = true
	} else {
		delete(h.names, name)
	}
}

// DiscardAll removes every file that was not committed. A process calls it right before it exits
// without waiting for the goroutines that write them. It keeps the lock, so that from then on
// Create, Commit and Discard block until the process has ended.
func DiscardAll() {
	hidden.Lock()
	for name := range hidden.names {
		os.Remove(name)
	}
}

// SyncDir makes the names in a directory durable. Windows keeps no such promise and needs no call.
func SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	syncErr := d.Sync()
	closeErr := d.Close()
	return cmp.Or(syncErr, closeErr)
}

// PartialName returns the name for the finished part of a file whose run was stopped: x.part.csv
// for x.csv, so that programs which go by the extension still read it.
func PartialName(name string) string {
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + ".part" + ext
}

// WithoutTempName replaces the path of a hidden file in an error by the name that the file gets;
// other errors and nil stay.
func WithoutTempName(name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: p.Op, Path: name, Err: p.Err}
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: l.Op, Path: name, Err: l.Err}
	}
	return err
}

// WithPath replaces the path in an error by name.
func WithPath(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, WithoutPath(err))
}

// WithoutPath returns an error of a file without its path.
func WithoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
