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

	// Note, if not "", is a message to the user; the other fields are empty then.
	Note string
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
	if err := checkNames(repo, revision); err != nil {
		return "", err
	}
	for _, file := range files {
		if err := checkFile(file); err != nil {
			return "", err
		}
	}
	findCached := func() (string, error) { return c.findCachedFiles(repo, revision, files) }
	if commitID.MatchString(revision) && !c.Offline {
		if dir, err := findCached(); err == nil {
			return dir, nil
		}
	}
	resolve := func(ctx context.Context, quick *Client) (commit string, err error) {
		remote, err := quick.statFile(ctx, repo, revision, files[0])
		if err != nil {
			return "", fmt.Errorf("%s: %w", files[0], err)
		}
		return remote.commit, nil
	}
	fetch := func(commit string) error {
		for _, file := range files {
			if err := c.fetchFile(ctx, repo, commit, file, progress); err != nil {
				return err
			}
		}
		return nil
	}
	return c.pullCommit(ctx, repo, revision, findCached, progress, resolve, fetch)
}

// pullCommit asks for the revision's commit by resolve, and fetches from it. If the revision is
// cached it makes one short request and uses the cache if the answer is not about the revision,
// which it reports to progress: a model that was used yesterday starts without a network too.
func (c *Client) pullCommit(ctx context.Context, repo, revision string,
	findCached func() (string, error), progress func(Progress),
	resolve func(ctx context.Context, quick *Client) (commit string, err error),
	fetch func(commit string) error) (string, error) {
	cachedDir, cacheErr := findCached()
	if c.Offline {
		return cachedDir, cacheErr
	}
	isCached := cacheErr == nil

	resolveCtx, quick, stop := c.limitRequests(ctx, isCached)
	commit, err := resolve(resolveCtx, quick)
	stop()
	if err == nil && commitID.MatchString(revision) && commit != revision {
		err = permanentError{fmt.Errorf("the server answers for commit %s", commit)}
	}
	if err != nil {
		var answer answeredError
		if isCached && ctx.Err() == nil && !errors.As(err, &answer) {
			if progress != nil {
				progress(Progress{Note: fmt.Sprintf("%s@%s is from the cache: %v", repo, revision,
					err)})
			}
			return cachedDir, nil
		}
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}

	if err := fetch(commit); err != nil {
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}
	if err := c.writeRef(repo, revision, commit); err != nil {
		return "", fmt.Errorf("%s@%s: %w", repo, revision, err)
	}
	return c.snapshotDir(repo, commit), nil
}

// limitRequests returns a client and a context for requests that a user waits for. The client gives
// up soon, sooner if the cache can be used instead; the context ends when all its attempts have had
// their time.
func (c *Client) limitRequests(ctx context.Context, isCached bool) (context.Context, *Client,
	context.CancelFunc) {
	quick := *c
	timeout := c.idleLimit()
	if c.Retries == 0 {
		quick.Retries = 2
	}
	if isCached {
		quick.Retries = -1
		timeout = min(timeout, cachedTimeout)
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("the server was silent for %v", timeout))
	return ctx, &quick, stop
}

// cachedTimeout is the time that a server has to answer if the cache can be used instead. Tests
// make it long, because theirs answers whenever the machine lets it.
var cachedTimeout = 3 * time.Second

// findCachedFiles returns the snapshot if the files are cached.
func (c *Client) findCachedFiles(repo, revision string, files []string) (dir string, err error) {
	dir, err = c.Find(repo, revision)
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if !c.hasFile(repo, filepath.Base(dir), file) {
			return "", c.missingFile(repo, revision, file)
		}
	}
	return dir, nil
}

// missingFile is the error of a file that is not cached.
func (c *Client) missingFile(repo, revision, file string) error {
	return fmt.Errorf("%s@%s: file %q: %w (%s)", repo, revision, file, ErrNotCached, c.Cache)
}
