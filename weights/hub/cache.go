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

// Snapshot is one commit of a repository in the cache.
type Snapshot struct {
	Repo   string   // org/name
	Commit string   // 40 hex digits
	Refs   []string // branches and tags that pointed at the commit when pulled, sorted
	Dir    string   // the snapshot's directory
	Files  []string // complete files in it, relative and with slashes, sorted
	Size   int64    // of these, in bytes

	// Folders are those with a model of their own, which org/name:folder/ names.
	Folders []string `json:",omitempty"`
}

// String returns one line for a list.
func (c Snapshot) String() string {
	line := fmt.Sprintf("%-40s %-12.12s %8.1f MB  %s", c.Repo, c.Commit, float64(c.Size)/1e6,
		strings.Join(c.Refs, " "))
	for _, folder := range c.Folders {
		line += " :" + folder + "/"
	}
	return line
}

// Find returns the directory of a cached snapshot without using the network. "" as revision means
// [DefaultRevision]. The error is [ErrNotCached] if it is not there.
func (c *Client) Find(repo, revision string) (dir string, err error) {
	revision = cmp.Or(revision, DefaultRevision)
	if err := checkNames(repo, revision); err != nil {
		return "", err
	}
	missing := fmt.Errorf("%s@%s: %w (%s)", repo, revision, ErrNotCached, c.Cache)
	commit := revision // a commit's own name needs no ref, and never moves
	if !commitID.MatchString(commit) {
		commit, err = c.readRef(repo, revision)
		if errors.Is(err, fs.ErrNotExist) {
			return "", missing
		}
		if err != nil {
			return "", err
		}
	}
	dir = c.snapshotDir(repo, commit)
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return "", missing
	}
	return dir, nil
}

func (c *Client) snapshotDir(repo, commit string) string {
	return filepath.Join(c.Cache, cacheFolder(repo), "snapshots", commit)
}

func (c *Client) blobPath(repo, etag string) string {
	return filepath.Join(c.Cache, cacheFolder(repo), "blobs", etag)
}

func (c *Client) refPath(repo, revision string) string {
	return filepath.Join(c.Cache, cacheFolder(repo), "refs", filepath.FromSlash(revision))
}

// readRef returns the commit that a branch or a tag had when it was last pulled. The error of one
// that was not wraps fs.ErrNotExist.
func (c *Client) readRef(repo, revision string) (commit string, err error) {
	name := c.refPath(repo, revision)
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
	return atomicfile.Put(c.refPath(repo, revision), []byte(commit))
}

// linkBlob makes a snapshot's file a relative link to a blob, so that a cache can be moved. Where
// links are not allowed it becomes a second name of the blob. The link is made elsewhere and
// renamed: another process never sees the file missing while it is replaced.
func (c *Client) linkBlob(repo, commit, file, etag string) error {
	name := filepath.Join(c.snapshotDir(repo, commit), filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(name), c.blobPath(repo, etag))
	if err != nil {
		return err
	}
	if oldTarget, err := os.Readlink(name); err == nil && oldTarget == target {
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Join(c.Cache, cacheFolder(repo)), "link-*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	link := filepath.Join(tmp, "link")
	if os.Symlink(target, link) != nil {
		if err := os.Link(c.blobPath(repo, etag), link); err != nil {
			return err
		}
	}
	return os.Rename(link, name)
}

// hasFile reports whether a snapshot's file is there and complete.
func (c *Client) hasFile(repo, commit, file string) bool {
	info, err := os.Stat(filepath.Join(c.snapshotDir(repo, commit), filepath.FromSlash(file)))
	return err == nil && info.Mode().IsRegular()
}

// List returns all snapshots in the cache, sorted by repository and commit.
func (c *Client) List() ([]Snapshot, error) {
	folders, err := os.ReadDir(c.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var snapshots []Snapshot
	for _, folder := range folders {
		name, ok := strings.CutPrefix(folder.Name(), "models--")
		repo := strings.ReplaceAll(name, "--", "/")
		if !ok || checkRepo(repo) != nil {
			continue // a dataset, or something else
		}
		list, err := c.listSnapshots(repo)
		if err != nil {
			return nil, err
		}
		snapshots = append(snapshots, list...)
	}
	slices.SortFunc(snapshots, func(a, b Snapshot) int {
		return strings.Compare(a.Repo+" "+a.Commit, b.Repo+" "+b.Commit)
	})
	return snapshots, nil
}

// listSnapshots returns the snapshots of one repository.
func (c *Client) listSnapshots(repo string) ([]Snapshot, error) {
	refs, err := c.listRefs(repo)
	if err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir(filepath.Join(c.Cache, cacheFolder(repo), "snapshots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var snapshots []Snapshot
	for _, dir := range dirs {
		commit := dir.Name()
		if !dir.IsDir() || !commitID.MatchString(commit) {
			continue
		}
		s := Snapshot{
			Repo:   repo,
			Commit: commit,
			Refs:   refs[commit],
			Dir:    c.snapshotDir(repo, commit),
		}
		s.Files, s.Size, err = listFiles(s.Dir)
		if err != nil {
			return nil, err
		}
		s.Folders = listModelFolders(s.Files)
		snapshots = append(snapshots, s)
	}
	return snapshots, nil
}

// listRefs returns a repository's branches and tags by commit.
func (c *Client) listRefs(repo string) (map[string][]string, error) {
	refs := map[string][]string{}
	dir := filepath.Join(c.Cache, cacheFolder(repo), "refs")
	err := walkFiles(dir, func(_ fs.FS, name string) {
		// Other files, temporary ones for example, are ignored.
		if commit, err := c.readRef(repo, name); err == nil && checkRevision(name) == nil {
			refs[commit] = append(refs[commit], name)
		}
	})
	return refs, err
}

// listFiles returns the complete files below dir and their size. A link whose blob is still being
// downloaded is not complete.
func listFiles(dir string) (files []string, size int64, err error) {
	err = walkFiles(dir, func(root fs.FS, name string) {
		if info, err := fs.Stat(root, name); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
			size += info.Size()
		}
	})
	return files, size, err
}

// walkFiles calls visit for everything below root that is not a directory, in lexical order. A
// missing root is empty.
func walkFiles(root string, visit func(root fs.FS, name string)) error {
	dir := os.DirFS(root)
	return fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			visit(dir, name)
		}
		return err
	})
}
