package fleet

import (
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
	// Name is how the Spec names it.
	Name string `json:"name"`

	// Base is the last part of its path, which has the extension that says what it is.
	Base string `json:"base"`

	// Dir reports whether it is a directory.
	Dir bool `json:"dir"`

	// Files are sorted by path.
	Files []File `json:"files"`

	// place is its path on this machine.
	place string
}

// File is a regular file of a Tree.
type File struct {
	// Path has slashes. It is "" for a Tree that is a file.
	Path string `json:"path"`

	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// maxFiles bounds the files of a Tree.
const maxFiles = 1 << 18

// NewTree reads what is at place, and hashes it. Hidden files, and what is neither file nor
// directory, are left out; links are followed. A file that cannot be read is an error.
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
	return t, t.addDir(place, "", 0)
}

// maxDepth bounds directories in directories. A link to a directory above itself has no other end.
const maxDepth = 16

// addDir adds the files of a directory, whose path in the tree is treePath. Links to directories
// are followed too: the cache of Hugging Face's hub has them.
func (t *Tree) addDir(dir, treePath string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: directories are more than 16 deep", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := filepath.Join(dir, e.Name())
		fileTreePath := path.Join(treePath, e.Name())
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a link to nowhere
			continue
		case err != nil:
			return err
		case info.IsDir():
			if err := t.addDir(file, fileTreePath, depth+1); err != nil {
				return err
			}
			continue
		case !info.Mode().IsRegular():
			continue
		}
		if len(t.Files) == maxFiles {
			return fmt.Errorf("%s has more than %d files", dir, maxFiles)
		}
		f, err := hashFile(file)
		if err != nil {
			return err
		}
		f.Path = fileTreePath
		t.Files = append(t.Files, f)
	}
	return nil
}

// hashFile returns the size and the SHA-256 of a file.
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

// key returns a hash of the tree's names and contents.
func (t *Tree) key() string {
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // texts and numbers
	}
	return digest(data)[:32]
}

// check refuses names that lead elsewhere: a hub must not write to files outside a worker's cache.
func (t *Tree) check() error {
	isName := fs.ValidPath(t.Base) && t.Base != "." && !strings.Contains(t.Base, "/")
	if !isName || len(t.Files) > maxFiles || !t.Dir && len(t.Files) != 1 {
		return fmt.Errorf("tree %q is not a file or a directory", t.Name)
	}
	for _, f := range t.Files {
		isPath := f.Path == ""
		if t.Dir {
			isPath = fs.ValidPath(f.Path) && f.Path != "." && !strings.Contains(f.Path, "\\")
		}
		if !isPath || !isHex(f.SHA256, sha256.Size) || f.Size < 0 {
			return fmt.Errorf("tree %q has a file %q", t.Name, f.Path)
		}
	}
	return nil
}

// path returns the path of a file of the tree, if the tree is at place.
func (t *Tree) path(place string, f File) string {
	return filepath.Join(place, filepath.FromSlash(f.Path))
}

// matches reports whether place has the tree, byte for byte. It compares all sizes before it reads
// any file.
func (t *Tree) matches(place string) bool {
	for _, f := range t.Files {
		info, err := os.Stat(t.path(place, f))
		if err != nil || info.Size() != f.Size {
			return false
		}
	}
	for _, f := range t.Files {
		hash, err := hashFile(t.path(place, f))
		if err != nil || hash.SHA256 != f.SHA256 {
			return false
		}
	}
	return true
}

// cache keeps files by their hash, and trees of links to them.
type cache struct{ dir string }

// place returns where a tree is: one of the local paths that has its bytes, or the cache, to which
// fetch gets what is missing.
func (c cache) place(t *Tree, localPaths []string,
	fetch func(f File, target string) error) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	for _, p := range localPaths {
		if t.matches(p) {
			return p, nil
		}
	}
	root := filepath.Join(c.dir, "trees", t.key())
	place := filepath.Join(root, t.Base)
	complete := filepath.Join(root, completeMark)
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
		target := t.path(place, f)
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return "", err
		}
		if err := linkFile(blob, target); err != nil {
			return "", err
		}
	}
	// The mark is written last: a tree without it was left by a worker that ended meanwhile, and is
	// completed by the next.
	return place, atomicfile.Put(complete, nil)
}

// completeMark is a file in a tree's root that appears once every file of the tree is there.
const completeMark = ".whole"

// linkFile gives a file a second name, or copies it where there are no links.
func linkFile(source, target string) error {
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Link(source, target) == nil {
		return atomicfile.SyncDir(filepath.Dir(target))
	}
	return copyFile(source, target)
}

// copyFile copies a file, whole or not at all. target may be another name of source by now: another
// worker of the machine may have linked it.
func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.WriteFile(target, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// fetchFile gets a file in pieces into target, through a file beside it that goes on where it was.
// get returns the bytes from an offset, at least one.
func fetchFile(f File, target string, get func(offset int64) ([]byte, error)) error {
	part := target + ".part"
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	h := sha256.New()
	offset, err := io.Copy(h, out)
	if err != nil {
		return err
	}
	if offset > f.Size { // it is of no use
		if out.Truncate(0) != nil {
			return fmt.Errorf("%s: cannot be emptied", part)
		}
		offset = 0
		h.Reset()
	}

	for offset < f.Size {
		data, err := get(offset)
		if err != nil {
			return err
		}
		if len(data) == 0 || int64(len(data)) > f.Size-offset {
			return fmt.Errorf("a piece of %d bytes, want 1 to %d", len(data), f.Size-offset)
		}
		if _, err := out.WriteAt(data, offset); err != nil {
			return err
		}
		h.Write(data)
		offset += int64(len(data))
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		if err := os.Remove(part); err != nil {
			return err
		}
		return fmt.Errorf("%s is not what the hub lists: fetched again it may be", f.SHA256[:12])
	}

	if err := out.Sync(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := os.Rename(part, target); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(target))
}

// placesByHash returns the places of all files by hash, for the hub to read.
func placesByHash(trees []Tree) map[string]string {
	places := map[string]string{}
	for _, t := range trees {
		for _, f := range t.Files {
			places[f.SHA256] = t.path(t.place, f)
		}
	}
	return places
}

// readFileSlice reads up to length bytes of a file from offset. size is that of the file.
func readFileSlice(name string, offset int64, length int) (data []byte, size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return readSlice(f, info.Size(), offset, length)
}

// readSlice reads up to length bytes from offset of a reader that has size bytes.
func readSlice(r io.ReaderAt, size, offset int64, length int) ([]byte, int64, error) {
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
