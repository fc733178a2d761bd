package runs

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// memory is a filesystem that fails on command and can lose what was not synced. Operation number
// failAt fails with failWith, after half of a write. If failWith is nil the process is killed: the
// operation is half done and later ones have no effect.
type memory struct {
	names, durable map[string]*node
	dirs           map[string]bool
	locks          map[string]bool

	ops, failAt int
	failWith    error
	dead, hit   bool
}

type node struct{ data, synced []byte }

func newMemory() *memory {
	return &memory{names: map[string]*node{}, durable: map[string]*node{},
		dirs: map[string]bool{".": true}, locks: map[string]bool{}, failAt: -1}
}

// turn counts an operation. half is set if it must be half done, err if it fails.
func (m *memory) turn() (half bool, err error) {
	if m.dead {
		return false, syscall.ESRCH
	}
	m.ops++
	if m.ops-1 != m.failAt {
		return false, nil
	}
	m.hit = true
	if m.failWith == nil {
		m.dead = true
		return true, syscall.ESRCH
	}
	return true, m.failWith
}

// reboot ends the process, which releases its locks. After a power cut only synced data is left,
// and half of what was appended since.
func (m *memory) reboot(power bool) {
	m.failAt, m.dead, m.locks = -1, false, map[string]bool{}
	if !power {
		return
	}
	m.names = maps.Clone(m.durable)
	for name := range m.names { // the removal of a directory is durable once its parent was synced
		m.dirs[filepath.Dir(name)] = true
	}
	for _, n := range m.names {
		if bytes.HasPrefix(n.data, n.synced) {
			n.data = bytes.Clone(n.data[:len(n.synced)+(len(n.data)-len(n.synced))/2])
		} else {
			n.data = bytes.Clone(n.synced)
		}
	}
}

// contents returns all files.
func (m *memory) contents() map[string]string {
	c := map[string]string{}
	for name, n := range m.names {
		c[name] = string(n.data)
	}
	return c
}

func (m *memory) Mkdir(name string) error {
	if _, err := m.turn(); err != nil {
		return err
	}
	m.dirs[name] = true
	return nil
}

func (m *memory) OpenFile(name string, flag int) (openFile, error) {
	if _, err := m.turn(); err != nil {
		return nil, err
	}
	n := m.names[name]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case n == nil:
		n = &node{}
		m.names[name] = n
	case flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	}
	return &memoryFile{m: m, n: n}, nil
}

func (m *memory) Rename(from, to string) error {
	if _, err := m.turn(); err != nil {
		return err
	}
	m.names[to] = m.names[from]
	delete(m.names, from)
	return nil
}

func (m *memory) Link(from, to string) error {
	if _, err := m.turn(); err != nil {
		return err
	}
	switch {
	case m.names[from] == nil:
		return fs.ErrNotExist
	case m.names[to] != nil:
		return fs.ErrExist
	}
	m.names[to] = m.names[from]
	return nil
}

func (m *memory) Remove(name string) error {
	if _, err := m.turn(); err != nil {
		return err
	}
	if m.dirs[name] {
		for n := range m.names {
			if filepath.Dir(n) == name {
				return syscall.ENOTEMPTY
			}
		}
		delete(m.dirs, name)
		return nil
	}
	if m.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(m.names, name)
	return nil
}

func (m *memory) ReadDir(dir string) (list []string, err error) {
	if _, err := m.turn(); err != nil {
		return nil, err
	}
	for name := range m.names {
		if filepath.Dir(name) == dir {
			list = append(list, filepath.Base(name))
		}
	}
	slices.Sort(list)
	return list, nil
}

func (m *memory) SyncDir(dir string) error {
	if _, err := m.turn(); err != nil {
		return err
	}
	maps.DeleteFunc(m.durable, func(name string, _ *node) bool {
		in := filepath.Dir(name)
		return in == dir || filepath.Dir(in) == dir && !m.dirs[in]
	})
	for name, n := range m.names {
		if filepath.Dir(name) == dir {
			m.durable[name] = n
		}
	}
	return nil
}

func (m *memory) Lock(name string) (func() error, error) {
	if _, err := m.turn(); err != nil {
		return nil, err
	}
	if m.locks[name] {
		return nil, errLocked
	}
	m.locks[name] = true
	return func() error {
		if !m.dead {
			delete(m.locks, name)
		}
		return nil
	}, nil
}

func (m *memory) Lstat(name string) (fs.FileInfo, error) {
	if _, err := m.turn(); err != nil {
		return nil, err
	}
	if m.dirs[name] {
		return info{name, 0, fs.ModeDir}, nil
	}
	n := m.names[name]
	if n == nil {
		return nil, fs.ErrNotExist
	}
	return info{name, int64(len(n.data)), 0}, nil
}

type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return filepath.Base(i.name) }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

type memoryFile struct {
	m  *memory
	n  *node
	at int
}

func (f *memoryFile) Read(p []byte) (int, error) {
	if _, err := f.m.turn(); err != nil {
		return 0, err
	}
	if f.at >= len(f.n.data) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[f.at:])
	f.at += n
	return n, nil
}

func (f *memoryFile) WriteAt(p []byte, at int64) (int, error) {
	half, err := f.m.turn()
	if half {
		p = p[:len(p)/2]
	}
	if err == nil || half {
		if end := int(at) + len(p); end > len(f.n.data) {
			f.n.data = append(bytes.Clone(f.n.data), strings.Repeat("\x00", end-len(f.n.data))...)
		}
		copy(f.n.data[at:], p)
	}
	return len(p), err
}

func (f *memoryFile) Stat() (fs.FileInfo, error) {
	_, err := f.m.turn()
	return info{"", int64(len(f.n.data)), 0}, err
}

func (f *memoryFile) Truncate(size int64) error {
	if _, err := f.m.turn(); err != nil {
		return err
	}
	f.n.data = bytes.Clone(f.n.data[:size])
	return nil
}

func (f *memoryFile) Sync() error {
	if _, err := f.m.turn(); err != nil {
		return err
	}
	f.n.synced = bytes.Clone(f.n.data)
	return nil
}

func (f *memoryFile) Close() error {
	_, err := f.m.turn()
	return err
}
