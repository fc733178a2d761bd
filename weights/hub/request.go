package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	maxRedirects = 10
	maxListing   = 64 << 20 // bytes of a repository's listing
	maxWait      = time.Minute
)

// tokenTransport adds the token to requests to the endpoint and to no other host, wherever a
// redirect leads.
type tokenTransport struct {
	base     http.RoundTripper
	endpoint *url.URL
	token    string
}

// RoundTrip sends the token to the Hub's own host alone: a redirect to another must not carry it
// there.
func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.token != "" && sameHost(r.URL, t.endpoint) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.base.RoundTrip(r)
}

// sameHost reports whether two addresses have one scheme, host and port.
func sameHost(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// send sends one request without a body. A HEAD request stops at the redirect that carries a file's
// metadata.
func (c *Client) send(ctx context.Context, method, address string,
	header http.Header) (*http.Response, error) {
	endpoint, err := c.endpointURL()
	if err != nil {
		return nil, permanentError{err}
	}
	base := cmp.Or(c.Transport, http.DefaultTransport)
	client := http.Client{
		Transport: tokenTransport{base, endpoint, c.Token},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			// A mirror that only leads to another hub says nothing about the file itself.
			says := r.Response.Header
			isMetadata := says.Get("X-Linked-Etag") != "" || says.Get("X-Repo-Commit") != ""
			if method == http.MethodHead && isMetadata {
				return http.ErrUseLastResponse
			}
			if endpoint.Scheme == "https" && r.URL.Scheme != "https" {
				return permanentError{fmt.Errorf("redirected to %s without encryption", r.URL.Host)}
			}
			if len(via) >= maxRedirects {
				return permanentError{fmt.Errorf("more than %d redirects", maxRedirects)}
			}
			return nil
		},
	}
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, permanentError{err}
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept-Encoding", "identity") // lengths must be those of the file
	r.Header.Set("User-Agent", "unmask")
	resp, err := client.Do(r)
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection without an answer")
	}
	return resp, err
}

// permanentError marks an error for which another attempt is useless.
type permanentError struct{ error }

func (p permanentError) Unwrap() error { return p.error }

// answeredError marks a permanent error by which the server says what the revision has, so that
// what is cached must not stand for it.
type answeredError struct{ error }

func (a answeredError) Unwrap() error { return permanentError(a) }

// transientError is an answer that asks to try again, after a time if that is not 0.
type transientError struct {
	error
	after time.Duration
}

// retry calls attempt until it succeeds or fails permanently, or until it has failed Retries times
// in a row, or for twice the longest silence, without progress. It does not wait for an attempt
// that the context's deadline leaves no time for.
func (c *Client) retry(ctx context.Context, attempt func() (progress bool, err error)) error {
	left := c.retryLimit()
	wait := c.firstBackoff()
	lastProgress := time.Now()
	for {
		progress, err := attempt()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, isPermanent := errors.AsType[permanentError](err)
		_, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err)
		if err == nil || isPermanent || isUntrusted {
			return err
		}

		// A download of hours may be interrupted any number of times, as long as it goes on.
		if progress {
			left = c.retryLimit()
			wait = c.firstBackoff()
			lastProgress = time.Now()
		}
		left--
		if left < 0 || time.Since(lastProgress) > 2*c.idleLimit() {
			return err
		}
		pause := wait
		if t, ok := errors.AsType[transientError](err); ok && t.after > 0 {
			pause = min(t.after, maxWait)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		wait = min(2*wait, 16*c.firstBackoff())
	}
}

func (c *Client) retryLimit() int             { return max(cmp.Or(c.Retries, 5), 0) }
func (c *Client) firstBackoff() time.Duration { return cmp.Or(c.Backoff, time.Second/2) }
func (c *Client) idleLimit() time.Duration    { return cmp.Or(c.Idle, 30*time.Second) }

// watchSilence returns a context that is cancelled if alive is not called for the idle time. stop
// ends the watch.
func (c *Client) watchSilence(ctx context.Context) (watched context.Context, alive, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.idleLimit(), func() {
		cancel(fmt.Errorf("the server was silent for %v", c.idleLimit()))
	})
	alive = func() { timer.Reset(c.idleLimit()) }
	stop = func() {
		timer.Stop()
		cancel(nil)
	}
	return watched, alive, stop
}

// causeOf replaces the error of a request that watchSilence cancelled by the cause: "context
// canceled" would not tell a user what happened.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// remoteFile is a file as described by the Hub.
type remoteFile struct {
	commit string
	etag   string // sha256 of a large file, git's blob hash of a small one
	size   int64  // bytes, -1 if unknown
}

var etagForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// request requests an address about a revision or, if it is not "", a file of it, and hands the
// answer to read.
func (c *Client) request(ctx context.Context, method, address, repo, revision, file string,
	read func(resp *http.Response) error) error {
	return c.retry(ctx, func() (bool, error) {
		ctx, _, stop := c.watchSilence(ctx)
		defer stop()
		resp, err := c.send(ctx, method, address, nil)
		if err != nil {
			return false, causeOf(ctx, err)
		}
		defer resp.Body.Close()
		class := resp.StatusCode / 100
		// The metadata of a file may come with a redirect.
		isMetadata := class == 3 && method == http.MethodHead
		if class != 2 && !isMetadata {
			return false, c.statusError(resp, repo, revision, file)
		}
		return false, causeOf(ctx, read(resp))
	})
}

// statFile requests a file's commit, hash and size.
func (c *Client) statFile(ctx context.Context, repo, revision, file string) (m remoteFile,
	err error) {
	err = c.request(ctx, http.MethodHead, c.fileURL(repo, revision, file), repo, revision, file,
		func(resp *http.Response) (err error) {
			m, err = parseRemote(resp)
			return err
		})
	return m, err
}

// parseRemote reads what the headers of an answer say about a file. The Hub has large files on
// another host, whose own ETag is not the hash, so its X-Linked headers go first.
func parseRemote(resp *http.Response) (remoteFile, error) {
	h := resp.Header
	etag := cmp.Or(h.Get("X-Linked-Etag"), h.Get("ETag"))
	remote := remoteFile{
		commit: h.Get("X-Repo-Commit"),
		etag:   strings.Trim(strings.TrimPrefix(etag, "W/"), `"`),
		size:   -1,
	}
	if !commitID.MatchString(remote.commit) {
		return remote, permanentError{fmt.Errorf("X-Repo-Commit is %.50q, want a commit of 40 hex digits",
			remote.commit)}
	}
	if !etagForm.MatchString(remote.etag) {
		return remote, permanentError{fmt.Errorf("ETag is %.80q, want a sha256 or a git hash",
			remote.etag)}
	}
	length := h.Get("X-Linked-Size")
	if length == "" && resp.StatusCode/100 == 2 {
		length = h.Get("Content-Length")
	}
	if length != "" {
		size, err := strconv.ParseInt(length, 10, 64)
		if err != nil || size < 0 {
			return remote, permanentError{fmt.Errorf("size is %.50q, want a number of bytes", length)}
		}
		remote.size = size
	}
	return remote, nil
}

// listRepo requests a revision's commit and files.
func (c *Client) listRepo(ctx context.Context, repo, revision string) (commit string,
	files []string,
	err error) {
	var answer struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	address := c.Endpoint + "/api/models/" + repo + "/revision/" + url.PathEscape(revision)
	err = c.request(ctx, http.MethodGet, address, repo, revision, "", func(resp *http.Response) error {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxListing+1)) // one more: it is too long
		switch {
		case err != nil:
			return err
		case len(data) > maxListing:
			return permanentError{fmt.Errorf("the list of files has more than %d bytes", maxListing)}
		case json.Unmarshal(data, &answer) != nil:
			return permanentError{fmt.Errorf("list of files is %.60q, want JSON with the commit and the files",
				data)}
		}
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	if !commitID.MatchString(answer.SHA) {
		return "", nil, permanentError{fmt.Errorf("list of files: commit is %.50q, want 40 hex digits",
			answer.SHA)}
	}
	for _, s := range answer.Siblings {
		if err := checkFile(s.Name); err != nil {
			return "", nil, permanentError{fmt.Errorf("list of files: %w", err)}
		}
		files = append(files, s.Name)
	}
	return answer.SHA, files, nil
}

// statusError returns the meaning of a status and what to do about it.
func (c *Client) statusError(resp *http.Response, repo, revision, file string) error {
	code := resp.Header.Get("X-Error-Code")
	status := resp.StatusCode
	token := "set HF_TOKEN to a token that may read it"
	if c.Token != "" {
		token = "check that the token in HF_TOKEN may read it"
	}
	// A status may mean several things, of which the code in the header says one. So codes come before
	// the statuses that they may have.
	var err error
	switch {
	case status == 429 || status == 408 || status/100 == 5:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return transientError{
			error: fmt.Errorf("the server answered %s", resp.Status),
			after: time.Duration(max(seconds, 0)) * time.Second,
		}
	case code == "GatedRepo":
		err = fmt.Errorf("access refused (%d): accept the terms at %s/%s and %s", status,
			c.Endpoint, repo, token)
	case status == 403:
		err = fmt.Errorf("access refused (403): %s", token)
	case code == "RevisionNotFound":
		return answeredError{fmt.Errorf("no revision %q (%d): see %s/%s/tree/main for its branches",
			revision, status, c.Endpoint, repo)}
	case code == "EntryNotFound":
		return answeredError{fmt.Errorf("no such file in the repository (%d): see %s/%s/tree/%s", status,
			c.Endpoint, repo, escapePath(revision))}
	case status == 401:
		err = fmt.Errorf("no such repository, or it is private (401): check the name, or %s", token)
	case status == 404 && file == "":
		err = fmt.Errorf("no such repository or revision (404): check the name, or %s", token)
	case status == 404:
		err = fmt.Errorf("no such repository, revision or file (404): check the names, or %s",
			token)
	default:
		err = fmt.Errorf("the server answered %s", resp.Status)
	}
	return permanentError{err}
}
