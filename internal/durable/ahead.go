package durable

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"unmask/internal/atomicfile"
)

// together is the number of outputs listed with one sync of the manifest. A crash in between leaves
// at most that many files without a line.
const together = 64

// ahead is a folder of outputs that wait for their turn. A file's name is its entry:
// 000012-7-SHA256.png is output 12 of seed 7. Outputs in entries are durable.
type ahead struct {
	fsys    FS
	parent  string // the folder that contains dir
	dir     string
	ext     string
	made    bool // dir exists
	entries map[int]Entry
}

// openAhead reads what a run left in dir. Outputs before `next` are no longer needed. It removes
// files that do not match their names.
func openAhead(fsys FS, parent, base, ext string, next int) (*ahead, error) {
	a := &ahead{fsys: fsys, parent: parent, dir: filepath.Join(parent, base), ext: ext,
		entries: map[int]Entry{}}
	info, err := fsys.Lstat(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a %s, want a directory", a.dir, atomicfile.Kind(info))
	}
	a.made = true
	names, err := fsys.ReadDir(a.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e, ok := a.parse(name)
		if !ok && !strings.HasSuffix(name, ".tmp") {
			continue
		}
		if ok && e.Index >= next {
			data, err := readFile(fsys, filepath.Join(a.dir, name))
			if err != nil {
				return nil, err
			}
			if digest(data) == e.SHA256 {
				a.entries[e.Index] = e
				continue
			}
		}
		if err := fsys.Remove(filepath.Join(a.dir, name)); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// name returns the file name of an entry.
func (a *ahead) name(e Entry) string {
	return fmt.Sprintf("%06d-%d-%s%s", e.Index, e.Seed, e.SHA256, a.ext)
}

func (a *ahead) path(e Entry) string { return filepath.Join(a.dir, a.name(e)) }

// parse is the inverse of name.
func (a *ahead) parse(name string) (e Entry, ok bool) {
	parts := strings.Split(strings.TrimSuffix(name, a.ext), "-")
	if len(parts) != 3 {
		return e, false
	}
	var err1, err2 error
	e.Index, err1 = strconv.Atoi(parts[0])
	e.Seed, err2 = strconv.ParseUint(parts[1], 10, 64)
	_, err := hex.DecodeString(parts[2])
	e.SHA256 = parts[2]
	return e, cmp.Or(err1, err2, err) == nil && a.name(e) == name
}

// put makes an output durable.
func (a *ahead) put(e Entry, data []byte) error {
	if !a.made {
		if err := a.fsys.Mkdir(a.dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := a.fsys.SyncDir(a.parent); err != nil {
			return err
		}
		a.made = true
	}
	if err := writeFile(a.fsys, a.dir, a.name(e), data); err != nil {
		return err
	}
	a.entries[e.Index] = e
	return nil
}

// run returns the consecutive entries from next on.
func (a *ahead) run(next int) (list []Entry) {
	for e, ok := a.entries[next]; ok && len(list) < together; e, ok = a.entries[next+len(list)] {
		list = append(list, e)
	}
	return list
}

// close removes the folder if it is empty.
func (a *ahead) close() error {
	if !a.made || len(a.entries) > 0 {
		return nil
	}
	names, err := a.fsys.ReadDir(a.dir)
	if err != nil || len(names) > 0 {
		return err
	}
	a.made = false
	return cmp.Or(a.fsys.Remove(a.dir), a.fsys.SyncDir(a.parent))
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
