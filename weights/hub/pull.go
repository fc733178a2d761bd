package hub

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
)

// Progress tells how far a file has come.
type Progress struct {
	File  string
	Done  int64 // bytes
	Total int64 // bytes, -1 if not known
}

// Pull makes files of a repository's revision present in the cache and returns
// the directory of the snapshot. No revision is [DefaultRevision], no files are
// all files; a file may be a pattern (path.Match), of which at least one file
// must exist. progress, if not nil, is called by the calling goroutine.
//
// The network is not used if the client is offline, or if the revision is a
// commit and every file is named and cached. If the network fails, what is
// cached of the revision will do. All files come from the commit that the
// revision stood at when Pull began. A download that broke off is resumed, by
// a later Pull too; every file's hash is checked before it gets its name.
func (c *Client) Pull(ctx context.Context, repo, revision string, files []string, progress func(Progress)) (dir string, err error) {
	if revision == "" {
		revision = DefaultRevision
	}
	if err := cmp.Or(checkRepo(repo), checkRevision(revision)); err != nil {
		return "", err
	}
	patterns := len(files) == 0
	for _, file := range files {
		if err := checkFile(file); err != nil {
			return "", err
		}
		if _, err := path.Match(file, ""); err != nil {
			return "", fmt.Errorf("file %q: %w", file, err)
		}
		patterns = patterns || isPattern(file)
	}
	if c.Offline {
		return c.offline(repo, revision, files)
	}
	if commitID.MatchString(revision) && !patterns {
		if dir, err := c.offline(repo, revision, files); err == nil {
			return dir, nil
		}
	}
	commit, wanted, err := c.resolve(ctx, repo, revision, files, patterns)
	if err == nil && commitID.MatchString(revision) && commit != revision {
		err = permanent{fmt.Errorf("the server answers for commit %s", commit)}
	}
	if err != nil {
		if !isPermanent(ctx, err) {
			if dir, err := c.offline(repo, revision, files); err == nil {
				return dir, nil
			}
		}
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}
	for _, file := range wanted {
		if err := c.fetch(ctx, repo, commit, file, progress); err != nil {
			return "", fmt.Errorf("%s@%s: %s: %w", repo, revision, file, err)
		}
	}
	if err := c.writeRef(repo, revision, commit); err != nil {
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}
	return c.snapshot(repo, commit), nil
}

// offline returns the snapshot if every file or pattern has something cached.
func (c *Client) offline(repo, revision string, files []string) (dir string, err error) {
	if dir, err = c.Find(repo, revision); err != nil {
		return "", err
	}
	have, _, err := contents(dir)
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if !slices.ContainsFunc(have, func(name string) bool { return name == file || match(file, name) }) {
			return "", fmt.Errorf("%s@%s: file %q: %w (%s)", repo, revision, file, ErrNotCached, c.Cache)
		}
	}
	return dir, nil
}

// resolve returns the commit a revision stands at and the files to fetch.
func (c *Client) resolve(ctx context.Context, repo, revision string, files []string, patterns bool) (commit string, wanted []string, err error) {
	if !patterns {
		m, err := c.stat(ctx, repo, revision, files[0])
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", files[0], err)
		}
		return m.commit, files, nil
	}
	commit, all, err := c.listing(ctx, repo, revision)
	if err != nil || len(files) == 0 {
		return commit, all, err
	}
	for _, file := range files {
		found := false
		for _, name := range all {
			if name == file || match(file, name) {
				found = true
				wanted = append(wanted, name)
			}
		}
		if !found {
			return "", nil, permanent{fmt.Errorf("no file %q in the repository: see %s/%s/tree/%s", file, c.Endpoint, repo, escapePath(revision))}
		}
	}
	slices.Sort(wanted)
	return commit, slices.Compact(wanted), nil
}
