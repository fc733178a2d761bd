package hub

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/gofrs/flock"

	"unmask/internal/atomicfile"
	"unmask/internal/memory"
)

const (
	lockPoll    = 50 * time.Millisecond
	newProgress = 1 << 20 // bytes from which an attempt counts as progress
)

// fetch downloads one file of a commit, unless it is there. Errors name the file.
func (c *Client) fetch(ctx context.Context, repo, commit, file string,
	progress func(Progress)) (err error) {
	if c.has(repo, commit, file) {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}()
	within, ask, stop := c.asking(ctx, false)
	m, err := ask.stat(within, repo, commit, file)
	stop()
	if err != nil {
		return err
	}
	if m.commit != commit {
		return fmt.Errorf("the server answers for commit %s, want %s", m.commit, commit)
	}
	blob := c.blob(repo, m.etag)
	locks := filepath.Join(c.Cache, ".locks", folder(repo))
	if err := cmp.Or(os.MkdirAll(filepath.Dir(blob), 0o777),
		os.MkdirAll(locks, 0o777)); err != nil {
		return err
	}
	// Two downloads of one blob would be wasteful but not harmful: only bytes with the right hash
	// are renamed.
	lock := flock.New(filepath.Join(locks, m.etag+".lock"), flock.SetPermissions(0o666))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer lock.Close()
	if info, err := os.Stat(blob); err != nil || m.size >= 0 && info.Size() != m.size {
		if !numbered.MatchString(file) { // all shards are announced together
			c.announce(repo, commit, file, m.size, progress)
		}
		d := download{c: c, url: c.fileURL(repo, commit, file), remote: m, repo: repo, file: file,
			blob: blob, progress: progress}
		if err := d.run(ctx); err != nil {
			return err
		}
	}
	return c.link(repo, commit, file, m.etag)
}

// announced is the least download that is announced, in bytes.
var announced int64 = 64 << 20

// numbered matches the name of a part of weights.
var numbered = regexp.MustCompile(`-\d{5}-of-\d{5}\.`)

// announce reports how much a download of weights is, and the memory that they will take.
func (c *Client) announce(repo, commit, file string, size int64, progress func(Progress)) {
	if progress == nil || size < announced {
		return
	}
	var config struct {
		Dtype string `json:"dtype"`
		Torch string `json:"torch_dtype"`
	}
	c.read(repo, commit, path.Join(path.Dir(file), "config.json"), &config) // without, 16 bits
	gb := float64(size) / 1e9
	takes := fmt.Sprintf("about %.1f GB of memory", gb)
	if path.Ext(file) != ".gguf" {
		values := gb / 2 // in 1e9
		if cmp.Or(config.Dtype, config.Torch) == "float32" {
			values = gb / 4
		}
		takes = fmt.Sprintf("about %.1f GB of memory in f32, %.1f in bf16 and %.1f in int8 "+
			"(--precision)", 4*values, 2*values, values)
	}
	if free, ok := memory.Available(); ok {
		takes += fmt.Sprintf("; %.1f GB are free", float64(free)/1e9)
	}
	progress(Progress{Note: fmt.Sprintf("note: downloading %.1f GB, once, to %s: the weights take %s",
		gb, c.Cache, takes)})
}

// download downloads one blob.
type download struct {
	remote
	c          *Client
	url        string
	repo, file string
	blob       string
	progress   func(Progress)
}

// run downloads to blob.incomplete, checks, and renames. A wrong hash may come from the rest of an
// earlier run, so the second try starts from the beginning.
func (d *download) run(ctx context.Context) error {
	incomplete := d.blob + ".incomplete"
	for last := false; ; last = true {
		err := d.c.retry(ctx, func() (bool, error) { return d.attempt(ctx, incomplete) })
		if err != nil {
			return err
		}
		err = d.verify(incomplete)
		if err == nil {
			break
		}
		if _, wrong := errors.AsType[*hashError](err); !wrong {
			return err
		}
		if err := os.Remove(incomplete); err != nil {
			return err
		}
		if last {
			return err
		}
	}
	if err := os.Rename(incomplete, d.blob); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(d.blob))
}

// attempt requests the missing bytes and appends them.
func (d *download) attempt(ctx context.Context, incomplete string) (progress bool, err error) {
	f, err := os.OpenFile(incomplete, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return false, permanent{err}
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, permanent{err}
	}
	if d.size >= 0 && have > d.size {
		if have, err = restart(f); err != nil {
			return false, err
		}
	}
	if have == d.size {
		return false, nil
	}
	ctx, alive, stop := d.c.watch(ctx)
	defer stop()
	header := http.Header{}
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := d.c.do(ctx, http.MethodGet, d.url, header)
	if err != nil {
		return false, silence(ctx, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		if have, err = restart(f); err != nil {
			return false, err
		}
	case http.StatusPartialContent:
		if err := d.checkRange(resp.Header.Get("Content-Range"), have); err != nil {
			return false, err
		}
	case http.StatusRequestedRangeNotSatisfiable:
		_, err := restart(f)
		return false, cmp.Or(err, fmt.Errorf("the server has no bytes from %d on", have))
	default:
		return false, d.c.refusal(resp, d.repo, d.commit, d.file)
	}
	if resp.ContentLength >= 0 && d.size >= 0 && resp.ContentLength != d.size-have {
		return false, permanent{fmt.Errorf("the server announces %d bytes, missing are %d of %d",
			resp.ContentLength, d.size-have, d.size)}
	}
	got, err := d.copy(f, resp.Body, have, alive)
	return got >= newProgress, silence(ctx, err)
}

// restart empties the file, for a server that sends it from the start.
func restart(f *os.File) (have int64, err error) {
	_, err = f.Seek(0, io.SeekStart)
	if err = cmp.Or(err, f.Truncate(0)); err != nil {
		return 0, permanent{err}
	}
	return 0, nil
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-\d+/(\d+|\*)$`)

func (d *download) checkRange(header string, have int64) error {
	m := contentRange.FindStringSubmatch(header)
	if m == nil || m[1] != strconv.FormatInt(have, 10) || d.size >= 0 && m[2] != "*" &&
		m[2] != strconv.FormatInt(d.size, 10) {
		return permanent{fmt.Errorf("Content-Range is %.60q, want from byte %d of %d", header, have,
			d.size)}
	}
	return nil
}

// copy appends the body to f and returns the bytes received.
func (d *download) copy(f *os.File, body io.Reader, have int64, alive func()) (got int64,
	err error) {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			if d.size >= 0 && have+got+int64(n) > d.size {
				return got, permanent{fmt.Errorf("the server sends more than the %d bytes it "+
					"announced", d.size)}
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return got, permanent{err}
			}
			got += int64(n)
			if d.progress != nil {
				d.progress(Progress{File: d.file, Done: have + got, Total: d.size})
			}
		}
		switch {
		case err == io.EOF && d.size >= 0 && have+got < d.size,
			errors.Is(err, io.ErrUnexpectedEOF): // fewer than Content-Length
			return got, fmt.Errorf("the server broke off after %d of %d bytes", have+got, d.size)
		case err == io.EOF:
			return got, nil
		case err != nil:
			return got, err
		}
	}
}

// hashError is the error of a file whose content does not match its etag.
type hashError struct{ kind, found, wanted string }

func (e *hashError) Error() string {
	return fmt.Sprintf("%s of the download is %s, want %s", e.kind, e.found, e.wanted)
}

// verify compares the file on disk with the etag and makes it durable.
func (d *download) verify(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0) // for Sync
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	kind, h := "sha256", sha256.New()
	if len(d.etag) == 2*sha1.Size {
		kind, h = "git hash", gitHash(info.Size())
	}
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if found := fmt.Sprintf("%x", h.Sum(nil)); found != d.etag {
		return &hashError{kind, found, d.etag}
	}
	return f.Sync()
}

// gitHash returns git's hash of a blob of size bytes, which begins with a header.
func gitHash(size int64) hash.Hash {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}
