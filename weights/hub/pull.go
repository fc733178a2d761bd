package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Progress is the state of a file's download.
type Progress struct {
	File  string
	Done  int64 // bytes
	Total int64 // bytes, -1 if unknown

	Note string // if not "", a message to the user, and nothing about a file
}

// Pull downloads files of a repository's revision to the cache, unless they are there, and returns
// the directory of the snapshot. "" as revision means [DefaultRevision]. progress, if not nil, is
// called by the calling goroutine.
//
// The network is not used if the client is offline, or if the revision is a commit and every file
// is cached. If the revision is cached, one short request is made, and the cache is used unless
// the answer has the revision's commit, or says that there is no such revision or file: also if
// the network fails or access is refused. All files come from the commit of the revision when Pull
// began. An interrupted download is resumed, also by a later Pull. Every file's hash is checked
// before it gets its name.
func (c *Client) Pull(ctx context.Context, repo, revision string, files []string,
	progress func(Progress)) (dir string, err error) {
	revision = cmp.Or(revision, DefaultRevision)
	if err := cmp.Or(checkRepo(repo), checkRevision(revision)); err != nil {
		return "", err
	}
	for _, file := range files {
		if err := checkFile(file); err != nil {
			return "", err
		}
	}
	cached := func() (string, error) { return c.findFiles(repo, revision, files) }
	if commitID.MatchString(revision) && !c.Offline {
		if dir, err := cached(); err == nil {
			return dir, nil
		}
	}
	return c.pull(ctx, repo, revision, cached, progress,
		func(ctx context.Context, ask *Client) (string, error) {
			m, err := ask.stat(ctx, repo, revision, files[0])
			if err != nil {
				return "", fmt.Errorf("%s: %w", files[0], err)
			}
			return m.commit, nil
		}, func(commit string) error {
			for _, file := range files {
				if err := c.fetch(ctx, repo, commit, file, progress); err != nil {
					return err
				}
			}
			return nil
		})
}

// pull requests the revision's commit and fetches from it. If the revision is cached it makes one
// short request and uses the cache if the answer is not about the revision, which it reports to
// progress.
func (c *Client) pull(ctx context.Context, repo, revision string, cached func() (string, error),
	progress func(Progress),
	question func(ctx context.Context, ask *Client) (commit string,
		err error), fetch func(commit string) error) (string, error) {
	have, absent := cached()
	if c.Offline {
		return have, absent
	}
	within, ask, stop := c.asking(ctx, absent == nil)
	commit, err := question(within, ask)
	stop()
	if err == nil && commitID.MatchString(revision) && commit != revision {
		err = permanent{fmt.Errorf("the server answers for commit %s", commit)}
	}
	if err != nil {
		var said answered
		if absent == nil && ctx.Err() == nil && !errors.As(err, &said) {
			if progress != nil {
				progress(Progress{Note: fmt.Sprintf("%s@%s is from the cache: %v", repo, revision,
					err)})
			}
			return have, nil
		}
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}
	if err := fetch(commit); err != nil {
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}
	if err := c.writeRef(repo, revision, commit); err != nil {
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}
	return c.snapshot(repo, commit), nil
}

// asking returns a client and a context for requests. The client gives up soon, sooner if the cache
// can be used; the context ends when all its attempts have had their time.
func (c *Client) asking(ctx context.Context, cached bool) (context.Context, *Client,
	context.CancelFunc) {
	ask, total := *c, c.idle()
	if c.Retries == 0 {
		ask.Retries = 2
	}
	if cached {
		ask.Retries, total = -1, min(total, shortly)
	}
	ctx, stop := context.WithTimeoutCause(ctx, total,
		fmt.Errorf("the server was silent for %v", total))
	return ctx, &ask, stop
}

// shortly is the time that a server has to answer if the cache can be used instead. Tests make it
// long, because theirs answers whenever the machine lets it.
var shortly = 3 * time.Second

// findFiles returns the snapshot if the files are cached.
func (c *Client) findFiles(repo, revision string, files []string) (dir string, err error) {
	if dir, err = c.Find(repo, revision); err != nil {
		return "", err
	}
	for _, file := range files {
		if !c.has(repo, filepath.Base(dir), file) {
			return "", c.missing(repo, revision, file)
		}
	}
	return dir, nil
}

// missing is the error of a file that is not cached.
func (c *Client) missing(repo, revision, file string) error {
	return fmt.Errorf("%s@%s: file %q: %w (%s)", repo, revision, file, ErrNotCached, c.Cache)
}
