package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"unmask/internal/atomicfile"
)

// Tree is a file or a directory that a run needs, such as a model.
type Tree struct {
	Name  string `json:"name"`  // how the Spec names it
	Base  string `json:"base"`  // its last part, which has the ending that says what it is
	Dir   bool   `json:"dir"`   // a directory
	Files []File `json:"files"` // by path
	place string // where it is here
}

// File is a regular file of a Tree.
type File struct {
	Path   string `json:"path"` // with slashes, "" of a Tree that is a file
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// maxFiles bounds the files of a Tree.
const maxFiles = 1 << 18

// NewTree reads what is at place, and hashes it. Hidden files, and what is neither file nor
// directory, are left out; links are followed.
func NewTree(name, place string) (Tree, error) {
	t := Tree{Name: name, Base: filepath.Base(place), place: place}
	info, err := os.Stat(place)
	if err != nil {
		return t, err
	}
	if !info.IsDir() {
		f, err := hashFile(place)
		t.Files = []File{f}
		return t, err
	}
	t.Dir = true
	return t, t.add(place, "", 0)
}

// add adds a directory. Links to directories are followed too: the hub's cache has them.
func (t *Tree) add(dir, under string, depth int) error {
	if depth > 16 {
		return fmt.Errorf("%s: directories are more than 16 deep", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		here, there := filepath.Join(dir, e.Name()), path.Join(under, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(here)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a link to nowhere
			continue
		case err != nil:
			return err
		case info.IsDir():
			if err := t.add(here, there, depth+1); err != nil {
				return err
			}
			continue
		case !info.Mode().IsRegular():
			continue
		}
		if len(t.Files) == maxFiles {
			return fmt.Errorf("%s has more than %d files", dir, maxFiles)
		}
		f, err := hashFile(here)
		if err != nil {
			return err
		}
		f.Path = there
		t.Files = append(t.Files, f)
	}
	return nil
}

func hashFile(name string) (f File, err error) {
	in, err := os.Open(name)
	if err != nil {
		return f, err
	}
	defer in.Close()
	h := sha256.New()
	f.Size, err = io.Copy(h, in)
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return f, err
}

// key is a hash of the names and contents.
func (t *Tree) key() string {
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // texts and numbers
	}
	return digest(data)[:32]
}

// check refuses names that lead elsewhere.
func (t *Tree) check() error {
	if !fs.ValidPath(t.Base) || t.Base == "." || strings.Contains(t.Base, "/") ||
		len(t.Files) > maxFiles || !t.Dir && len(t.Files) != 1 {
		return fmt.Errorf("tree %q is not a file or a directory", t.Name)
	}
	for _, f := range t.Files {
		if t.Dir && (!fs.ValidPath(f.Path) || f.Path == "." || strings.Contains(f.Path, "\\")) ||
			!t.Dir && f.Path != "" ||
			!isHex(f.SHA256, sha256.Size) || f.Size < 0 {
			return fmt.Errorf("tree %q has a file %q", t.Name, f.Path)
		}
	}
	return nil
}

// path returns where a file is of a tree at place.
func (t *Tree) path(place string, f File) string {
	return filepath.Join(place, filepath.FromSlash(f.Path))
}

// in reports whether place has the tree, byte for byte.
func (t *Tree) in(place string) bool {
	for _, f := range t.Files {
		info, err := os.Stat(t.path(place, f))
		if err != nil || info.Size() != f.Size {
			return false
		}
	}
	for _, f := range t.Files {
		if found, err := hashFile(t.path(place, f)); err != nil || found.SHA256 != f.SHA256 {
			return false
		}
	}
	return true
}

// cache keeps files by their hash, and trees of links to them.
type cache struct{ dir string }

// place returns where a tree is: one of the own places that has its bytes, or the cache, to which
// fetch gets what is missing.
func (c cache) place(t *Tree, own []string, fetch func(f File, to string) error) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	for _, p := range own {
		if t.in(p) {
			return p, nil
		}
	}
	root := filepath.Join(c.dir, "trees", t.key())
	place := filepath.Join(root, t.Base)
	complete := filepath.Join(root, mark)
	if _, err := os.Stat(complete); err == nil {
		return place, nil
	}
	for _, f := range t.Files {
		blob := filepath.Join(c.dir, "files", f.SHA256)
		if _, err := os.Stat(blob); err != nil {
			if err := os.MkdirAll(filepath.Dir(blob), 0o777); err != nil {
				return "", err
			}
			if err := fetch(f, blob); err != nil {
				return "", err
			}
		}
		to := t.path(place, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return "", err
		}
		if err := link(blob, to); err != nil {
			return "", err
		}
	}
	return place, atomicfile.Put(complete, nil)
}

// mark is a file in a tree's root that appears once every file of the tree is there.
const mark = ".whole"

// link gives a file a second name, or copies it where there are no links.
func link(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Link(from, to) == nil {
		return atomicfile.SyncDir(filepath.Dir(to))
	}
	return copied(from, to)
}

// copied copies a file, whole or not at all. to may be another name of from by now: another worker
// of the machine may have linked it.
func copied(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.WriteFile(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// fetched gets a file in pieces into to, through a file beside it that goes on where it was. get
// returns the bytes from an offset, one at least.
func fetched(f File, to string, get func(offset int64) ([]byte, error)) error {
	part := to + ".part"
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	h := sha256.New()
	at, err := io.Copy(h, out)
	if err != nil {
		return err
	}
	if at > f.Size {
		if at = 0; out.Truncate(0) != nil {
			return fmt.Errorf("%s: cannot be emptied", part)
		}
		h.Reset()
	}
	for at < f.Size {
		data, err := get(at)
		if err != nil {
			return err
		}
		if len(data) == 0 || int64(len(data)) > f.Size-at {
			return fmt.Errorf("a piece of %d bytes, want 1 to %d", len(data), f.Size-at)
		}
		if _, err := out.WriteAt(data, at); err != nil {
			return err
		}
		h.Write(data)
		at += int64(len(data))
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		err := os.Remove(part)
		return cmp.Or(err, fmt.Errorf("%s is not what the hub lists: fetched again it may be",
			f.SHA256[:12]))
	}
	if err := cmp.Or(out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(to))
}

// where lists the places of all files by hash, for the hub to read.
func where(trees []Tree) map[string]string {
	list := map[string]string{}
	for _, t := range trees {
		for _, f := range t.Files {
			list[f.SHA256] = t.path(t.place, f)
		}
	}
	return list
}

// readAt reads up to length bytes of a file from offset.
func readAt(name string, offset int64, length int) (data []byte, size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return cutAt(f, info.Size(), offset, length)
}

func cutAt(r io.ReaderAt, size, offset int64, length int) ([]byte, int64, error) {
	if offset < 0 || offset > size || length < 0 {
		return nil, size, fmt.Errorf("offset is %d, want 0 to %d", offset, size)
	}
	data := make([]byte, min(int64(length), MaxPiece, size-offset))
	n, err := r.ReadAt(data, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], size, err
}
