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
	"unmask/internal/diskspace"
	"unmask/internal/memory"
)

const (
	lockPoll    = 50 * time.Millisecond
	newProgress = 1 << 20 // bytes from which an attempt counts as progress
)

// maxUnstated bounds a file whose length the server does not say, in bytes. The Hub says it of all
// its files, so this is for mirrors, and their small files.
var maxUnstated int64 = 1 << 30

// freeBytes returns the bytes that may still be written where a path is.
var freeBytes = diskspace.Free

// fetchFile downloads one file of a commit, unless it is there. Errors name the file.
func (c *Client) fetchFile(ctx context.Context, repo, commit, file string,
	progress func(Progress)) error {
	if c.hasFile(repo, commit, file) {
		return nil
	}
	if err := c.fetchMissing(ctx, repo, commit, file, progress); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// fetchMissing fetches a file that the snapshot lacks. Its blob may be there already, from another
// commit or another name.
func (c *Client) fetchMissing(ctx context.Context, repo, commit, file string,
	progress func(Progress)) error {
	statCtx, quick, stop := c.limitRequests(ctx, false)
	remote, err := quick.statFile(statCtx, repo, commit, file)
	stop()
	if err != nil {
		return err
	}
	if remote.commit != commit {
		return fmt.Errorf("the server answers for commit %s, want %s", remote.commit, commit)
	}
	blob := c.blobPath(repo, remote.etag)
	locks := filepath.Join(c.Cache, ".locks", cacheFolder(repo))
	if err := os.MkdirAll(filepath.Dir(blob), 0o777); err != nil {
		return err
	}
	if err := os.MkdirAll(locks, 0o777); err != nil {
		return err
	}

	// Two downloads of one blob would be wasteful but not harmful: only bytes with the right hash
	// are renamed.
	lock := flock.New(filepath.Join(locks, remote.etag+".lock"), flock.SetPermissions(0o666))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer lock.Close()

	info, err := os.Stat(blob)
	isThere := err == nil && (remote.size < 0 || info.Size() == remote.size)
	if !isThere {
		if !shardFile.MatchString(file) { // all shards are announced together
			c.announceDownload(repo, commit, file, remote.size, progress)
		}
		d := download{
			remoteFile: remote,
			client:     c,
			url:        c.fileURL(repo, commit, file),
			repo:       repo,
			file:       file,
			blob:       blob,
			progress:   progress,
		}
		if err := d.fetch(ctx); err != nil {
			return err
		}
	}
	return c.linkBlob(repo, commit, file, remote.etag)
}

// announceFrom is the least download that is announced, in bytes.
var announceFrom int64 = 64 << 20

// shardFile matches the name of a part of weights.
var shardFile = regexp.MustCompile(`-\d{5}-of-\d{5}\.`)

// announceDownload reports how much a download of weights is, and the memory that they will take:
// who has too little of it hears so before hours of download, not after.
func (c *Client) announceDownload(repo, commit, file string, size int64,
	progress func(Progress)) {
	if progress == nil || size < announceFrom {
		return
	}
	gigabytes := float64(size) / 1e9
	memoryNeed := fmt.Sprintf("about %.1f GB of memory", gigabytes)
	if path.Ext(file) != ".gguf" { // whose blocks are computed with as they are
		var config struct {
			Dtype string `json:"dtype"`
			Torch string `json:"torch_dtype"`
		}
		// Without a readable config.json the weights are taken to have 16 bits.
		c.readJSON(repo, commit, path.Join(path.Dir(file), "config.json"), &config)
		billions := gigabytes / 2 // of values
		if cmp.Or(config.Dtype, config.Torch) == "float32" {
			billions = gigabytes / 4
		}
		memoryNeed = fmt.Sprintf("about %.1f GB of memory in f32, %.1f in bf16 and %.1f in int8 "+
			"(--precision)", 4*billions, 2*billions, billions)
	}
	if free, ok := memory.Available(); ok {
		memoryNeed += fmt.Sprintf("; %.1f GB are free", float64(free)/1e9)
	}
	progress(Progress{Note: fmt.Sprintf("note: downloading %.1f GB, once, to %s: the weights take %s",
		gigabytes, c.Cache, memoryNeed)})
}

// download downloads one blob.
type download struct {
	remoteFile
	client   *Client
	url      string
	repo     string
	file     string // in the repository, for errors and progress
	blob     string // path of the finished file
	progress func(Progress)

	// most is the largest number of bytes that the unfinished file has had.
	most int64
}

// fetch downloads to blob.incomplete, checks, and renames. A wrong hash may come from the rest of
// an earlier download, so the second try starts from the beginning.
func (d *download) fetch(ctx context.Context) error {
	incomplete := d.blob + ".incomplete"
	for isLast := false; ; isLast = true {
		d.most = 0
		err := d.client.retry(ctx, func() (bool, error) { return d.attempt(ctx, incomplete) })
		if err != nil {
			return err
		}
		err = d.checkHash(incomplete)
		if err == nil {
			break
		}
		if _, ok := errors.AsType[*hashError](err); !ok {
			return err
		}
		if err := os.Remove(incomplete); err != nil {
			return err
		}
		if isLast {
			return err
		}
	}
	if err := os.Rename(incomplete, d.blob); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(d.blob))
}

// attempt requests the missing bytes and appends them. It reports whether the file has enough more
// than ever before to count as progress: the same bytes again are none.
func (d *download) attempt(ctx context.Context, incomplete string) (progress bool, err error) {
	f, err := os.OpenFile(incomplete, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return false, permanentError{err}
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, permanentError{err}
	}
	if d.size >= 0 && have > d.size { // of another file with this name
		if err := emptyFile(f); err != nil {
			return false, err
		}
		have = 0
	}
	if have == d.size {
		return false, nil
	}
	d.most = max(d.most, have)
	if err := d.checkRoom(d.size - have); err != nil {
		return false, err
	}

	ctx, alive, stop := d.client.watchSilence(ctx)
	defer stop()
	header := http.Header{}
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := d.client.send(ctx, http.MethodGet, d.url, header)
	if err != nil {
		return false, causeOf(ctx, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK: // the server sends the file from its start
		if err := emptyFile(f); err != nil {
			return false, err
		}
		have = 0
	case http.StatusPartialContent:
		if err := d.checkRange(resp.Header.Get("Content-Range"), have); err != nil {
			return false, err
		}
	case http.StatusRequestedRangeNotSatisfiable:
		err := emptyFile(f)
		return false, cmp.Or(err, fmt.Errorf("the server has no bytes from %d on", have))
	default:
		return false, d.client.statusError(resp, d.repo, d.commit, d.file)
	}
	if resp.ContentLength >= 0 && d.size >= 0 && resp.ContentLength != d.size-have {
		return false, permanentError{fmt.Errorf("the server announces %d bytes, missing are %d of %d",
			resp.ContentLength, d.size-have, d.size)}
	}
	if err := d.checkRoom(resp.ContentLength); err != nil {
		return false, err
	}
	bound := d.size
	if bound < 0 && resp.ContentLength >= 0 {
		bound = have + resp.ContentLength
	}
	received, err := d.appendBody(f, resp.Body, have, bound, alive)
	progress = have+received-d.most >= newProgress
	d.most = max(d.most, have+received)
	return progress, causeOf(ctx, err)
}

// checkRoom returns an error if the disk has no room for so many bytes more; below 0 the server
// does not say how many there are.
func (d *download) checkRoom(missing int64) error {
	free, known := freeBytes(d.client.Cache)
	if !known || missing <= free {
		return nil
	}
	return permanentError{fmt.Errorf("the download has %d bytes more, and %d are free in %s", missing,
		free, d.client.Cache)}
}

// emptyFile empties the file, for a download from the start.
func emptyFile(f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return permanentError{err}
	}
	if err := f.Truncate(0); err != nil {
		return permanentError{err}
	}
	return nil
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-\d+/(\d+|\*)$`)

// checkRange returns an error for a Content-Range that does not go on where the file ends.
func (d *download) checkRange(header string, have int64) error {
	m := contentRange.FindStringSubmatch(header)
	isNext := m != nil && m[1] == strconv.FormatInt(have, 10)
	isSize := m != nil && (d.size < 0 || m[2] == "*" || m[2] == strconv.FormatInt(d.size, 10))
	if !isNext || !isSize {
		return permanentError{fmt.Errorf("Content-Range is %.60q, want from byte %d of %d", header, have,
			d.size)}
	}
	return nil
}

// appendBody appends the body to f, which has `have` bytes, and returns the bytes received. It
// calls alive for each piece. The file has at most bound bytes; below 0 the server does not say how
// many, and maxUnstated is the bound.
func (d *download) appendBody(f *os.File, body io.Reader, have, bound int64,
	alive func()) (received int64, err error) {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			after := have + received + int64(n)
			if bound >= 0 && after > bound {
				return received, permanentError{fmt.Errorf("the server sends more than the %d bytes it "+
					"announced", bound)}
			}
			if bound < 0 && after > maxUnstated {
				return received, dropUnstated(f)
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return received, permanentError{err}
			}
			received += int64(n)
			if d.progress != nil {
				d.progress(Progress{File: d.file, Done: have + received, Total: d.size})
			}
		}
		isShort := err == io.EOF && d.size >= 0 && have+received < d.size ||
			errors.Is(err, io.ErrUnexpectedEOF) // fewer than Content-Length
		switch {
		case isShort:
			return received, fmt.Errorf("the server broke off after %d of %d bytes", have+received, d.size)
		case err == io.EOF:
			return received, nil
		case err != nil:
			return received, err
		}
	}
}

// dropUnstated empties a file that no server ever said the length of, and returns why.
func dropUnstated(f *os.File) error {
	if err := emptyFile(f); err != nil {
		return err
	}
	return permanentError{fmt.Errorf("the server announces no length and sends more than %d bytes",
		maxUnstated)}
}

// hashError is the error of a file whose content does not match its etag.
type hashError struct {
	kind  string // of the hash
	found string
	want  string
}

func (e *hashError) Error() string {
	return fmt.Sprintf("%s of the download is %s, want %s", e.kind, e.found, e.want)
}

// checkHash compares the file on disk with the etag and makes it durable.
func (d *download) checkHash(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0) // for Sync
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	kind := "sha256"
	h := sha256.New()
	if len(d.etag) == 2*sha1.Size {
		kind = "git hash"
		h = newGitHash(info.Size())
	}
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if found := fmt.Sprintf("%x", h.Sum(nil)); found != d.etag {
		return &hashError{kind: kind, found: found, want: d.etag}
	}
	return f.Sync()
}

// newGitHash returns git's hash of a blob of size bytes, which begins with a header.
func newGitHash(size int64) hash.Hash {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}
