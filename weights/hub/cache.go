package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
)

// ErrNotCached is wrapped by errors about what only the network could provide.
var ErrNotCached = errors.New("not in the cache")

// Snapshot is one snapshot in the cache.
type Snapshot struct {
	Repo   string   // org/name
	Commit string   // 40 hex digits
	Refs   []string // branches and tags that pointed at the commit when pulled, sorted
	Dir    string   // the snapshot's directory
	Files  []string // complete files in it, relative and with slashes, sorted
	Size   int64    // of these, in bytes
}

// String returns one line for a list.
func (c Snapshot) String() string {
	return fmt.Sprintf("%-40s %-12.12s %8.1f MB  %s", c.Repo, c.Commit, float64(c.Size)/1e6,
		strings.Join(c.Refs, " "))
}

// Find returns the directory of a cached snapshot without using the network. "" as revision means
// [DefaultRevision]. The error is [ErrNotCached] if it is not there.
func (c *Client) Find(repo, revision string) (dir string, err error) {
	revision = cmp.Or(revision, DefaultRevision)
	if err := cmp.Or(checkRepo(repo), checkRevision(revision)); err != nil {
		return "", err
	}
	missing := fmt.Errorf("%s@%s: %w (%s)", repo, revision, ErrNotCached, c.Cache)
	commit := revision
	if !commitID.MatchString(commit) {
		if commit, err = c.readRef(repo, revision); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return "", missing
			}
			return "", err
		}
	}
	dir = c.snapshot(repo, commit)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", missing
	}
	return dir, nil
}

func (c *Client) snapshot(repo, commit string) string {
	return filepath.Join(c.Cache, folder(repo), "snapshots", commit)
}

func (c *Client) blob(repo, etag string) string {
	return filepath.Join(c.Cache, folder(repo), "blobs", etag)
}

func (c *Client) ref(repo, revision string) string {
	return filepath.Join(c.Cache, folder(repo), "refs", filepath.FromSlash(revision))
}

func (c *Client) readRef(repo, revision string) (commit string, err error) {
	name := c.ref(repo, revision)
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	commit = strings.TrimSpace(string(data))
	if !commitID.MatchString(commit) {
		return "", fmt.Errorf("%s is %.50q, want a commit of 40 hex digits", name, commit)
	}
	return commit, nil
}

// writeRef records the commit of a branch or tag, atomically.
func (c *Client) writeRef(repo, revision, commit string) error {
	if revision == commit {
		return nil
	}
	if old, err := c.readRef(repo, revision); err == nil && old == commit {
		return nil
	}
	return atomicfile.Put(c.ref(repo, revision), []byte(commit))
}

// link makes a snapshot's file a relative link to a blob, so that a cache can be moved. Where links
// are not allowed it becomes a second name of the blob.
func (c *Client) link(repo, commit, file, etag string) error {
	name := filepath.Join(c.snapshot(repo, commit), filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(name), c.blob(repo, etag))
	if err != nil {
		return err
	}
	if old, err := os.Readlink(name); err == nil && old == target {
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Join(c.Cache, folder(repo)), "link-*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fresh := filepath.Join(tmp, "link")
	if os.Symlink(target, fresh) != nil {
		if err := os.Link(c.blob(repo, etag), fresh); err != nil {
			return err
		}
	}
	return os.Rename(fresh, name)
}

// has reports whether a snapshot's file is there and complete.
func (c *Client) has(repo, commit, file string) bool {
	info, err := os.Stat(filepath.Join(c.snapshot(repo, commit), filepath.FromSlash(file)))
	return err == nil && info.Mode().IsRegular()
}

// List returns all snapshots in the cache, sorted by repository and commit.
func (c *Client) List() ([]Snapshot, error) {
	dirs, err := os.ReadDir(c.Cache)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var all []Snapshot
	for _, d := range dirs {
		name, ok := strings.CutPrefix(d.Name(), "models--")
		repo := strings.ReplaceAll(name, "--", "/")
		if !ok || checkRepo(repo) != nil {
			continue // another kind of repository
		}
		refs, err := c.refs(repo)
		if err != nil {
			return nil, err
		}
		snapshots, err := os.ReadDir(filepath.Join(c.Cache, d.Name(), "snapshots"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, s := range snapshots {
			if !s.IsDir() || !commitID.MatchString(s.Name()) {
				continue
			}
			one := Snapshot{Repo: repo, Commit: s.Name(), Refs: refs[s.Name()],
				Dir: c.snapshot(repo, s.Name())}
			if one.Files, one.Size, err = contents(one.Dir); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Snapshot) int {
		return strings.Compare(a.Repo+" "+a.Commit, b.Repo+" "+b.Commit)
	})
	return all, nil
}

// refs returns a repository's branches and tags by commit.
func (c *Client) refs(repo string) (map[string][]string, error) {
	refs := map[string][]string{}
	err := walk(filepath.Join(c.Cache, folder(repo), "refs"), func(_ fs.FS, name string) {
		// Other files, temporary ones for example, are ignored.
		if commit, err := c.readRef(repo, name); err == nil && checkRevision(name) == nil {
			refs[commit] = append(refs[commit], name)
		}
	})
	return refs, err
}

// contents returns the complete files below dir and their size.
func contents(dir string) (files []string, size int64, err error) {
	err = walk(dir, func(root fs.FS, name string) {
		if info, err := fs.Stat(root, name); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
			size += info.Size()
		}
	})
	return files, size, err
}

// walk calls f for everything below root that is not a directory, in lexical order. A missing root
// is empty.
func walk(root string, f func(root fs.FS, name string)) error {
	dir := os.DirFS(root)
	return fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			f(dir, name)
		}
		return err
	})
}
