package hub

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

var both = []string{"config.json", "model.safetensors"}

func TestPullLayout(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	var last Progress
	files := h.trees[commitA]
	dir, err := c.Pull(t.Context(), repo, "feature/x", slices.Sorted(maps.Keys(files)),
		func(p Progress) { last = p })
	require.NoError(t, err)
	require.Equal(t, filepath.Join(c.Cache, "models--org--some-model", "snapshots", commitA), dir)
	for file, data := range files {
		require.Equal(t, data, read(t, filepath.Join(dir, file)))
	}
	require.Positive(t, last.Total)
	require.Equal(t, last.Total, last.Done)
	tag := func(file string) string { return etag(file, files[file]) }
	want := []string{
		"refs/feature/x",
		"snapshots/" + commitA + "/.gitattributes -> ../../blobs/" + tag(".gitattributes"),
		"snapshots/" + commitA + "/config.json -> ../../blobs/" + tag("config.json"),
		"snapshots/" + commitA + "/model.safetensors -> ../../blobs/" + tag("model.safetensors"),
		"snapshots/" + commitA + "/sub/dir/extra.txt -> ../../../../blobs/" +
			tag("sub/dir/extra.txt"),
	}
	for file := range files {
		want = append(want, "blobs/"+tag(file))
	}
	slices.Sort(want)
	require.Equal(t, want, tree(t, filepath.Join(c.Cache, "models--org--some-model")))
	// Other users of a shared cache may take the locks too, as the umask allows.
	locks, err := filepath.Glob(filepath.Join(c.Cache, ".locks", "*", "*.lock"))
	require.NoError(t, err)
	require.Len(t, locks, 4)
	for _, name := range locks {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&0o044, "%v", info.Mode())
	}
	require.Equal(t, commitA, read(t, c.refPath(repo, "feature/x")))
	require.FileExists(t, filepath.Join(c.Cache, ".locks", "models--org--some-model",
		tag("config.json")+".lock"))
	require.Equal(t, 1, h.count("/resolve/feature%2Fx/.gitattributes Bearer hf_secret"))

	found, err := c.Find(repo, "feature/x")
	require.NoError(t, err)
	require.Equal(t, dir, found)
	_, err = c.Find(repo, "")
	require.ErrorIs(t, err, ErrNotCached)
	all, err := c.List()
	require.NoError(t, err)
	require.Equal(t, []Snapshot{{Repo: repo, Commit: commitA, Refs: []string{"feature/x"}, Dir: dir,
		Files: []string{".gitattributes", "config.json", "model.safetensors",
			"sub/dir/extra.txt"}, Size: 50012}}, all)
}

func TestPullCachedCommitNeedsNoNetwork(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	dir, err := c.Pull(t.Context(), repo, "", both, nil)
	require.NoError(t, err)
	before := len(h.seen)
	again, err := c.Pull(t.Context(), repo, commitA, both, nil)
	require.NoError(t, err)
	require.Equal(t, dir, again)
	require.Len(t, h.seen, before)
	_, err = c.Pull(t.Context(), repo, "main", both,
		nil) // one request shows that the branch has not moved
	require.NoError(t, err)
	require.Len(t, h.seen, before+1)

	h.Close()
	again, err = c.Pull(t.Context(), repo, "main", both, nil)
	require.NoError(t, err, "the network fails, the cache serves")
	require.Equal(t, dir, again)
	_, err = c.Pull(t.Context(), repo, "main", []string{"other.json"}, nil)
	require.Error(t, err)
}

func TestPullOffline(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	c.Offline = true
	_, err := c.Pull(t.Context(), repo, "", both, nil)
	require.ErrorIs(t, err, ErrNotCached)
	c.Offline = false
	dir, err := c.Pull(t.Context(), repo, "", both, nil)
	require.NoError(t, err)
	c.Offline = true
	before := len(h.seen)
	again, err := c.Pull(t.Context(), repo, "", both[1:], nil)
	require.NoError(t, err)
	require.Equal(t, dir, again)
	_, err = c.Pull(t.Context(), repo, "", []string{"tokenizer.json"}, nil)
	require.ErrorIs(t, err, ErrNotCached)
	require.ErrorContains(t, err, `org/some-model@main: file "tokenizer.json": not in the cache`)
	require.Len(t, h.seen, before)
}

// A sharded model opens directly from the cache, through its links.
func TestPulledModelOpens(t *testing.T) {
	h := newHub(t)
	files := h.trees[commitA]
	delete(files, "model.safetensors")
	for _, name := range []string{"a", "b"} {
		var shard strings.Builder
		require.NoError(t, weights.Write(&shard,
			[]weights.Tensor{{Name: name, DType: weights.U8, Shape: []int{1},
				Data: []byte{7}}}, nil))
		files[name+".safetensors"] = shard.String()
	}
	files["model.safetensors.index.json"] = `{"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}`
	dir, err := h.client(t).PullModel(t.Context(), repo, "", nil)
	require.NoError(t, err)
	set, err := weights.Open(dir)
	require.NoError(t, err)
	defer set.Close()
	b, ok := set.Get("b")
	require.True(t, ok)
	values, err := b.Int64s()
	require.NoError(t, err)
	require.Equal(t, []int64{7}, values)
}

func TestPullResumesWithinOneCall(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	h.deliver = func(w http.ResponseWriter, r *http.Request, data string) bool {
		if r.Header.Get("Range") == "" && strings.HasSuffix(r.URL.Path, ".safetensors") {
			breakOff(w, data[:20000], len(data))
		}
		return false
	}
	dir, err := c.Pull(t.Context(), repo, "", both, nil)
	require.NoError(t, err)
	require.Equal(t, h.trees[commitA]["model.safetensors"], read(t, dir+"/model.safetensors"))
	require.Equal(t, 1, h.count("cdn: GET /"+commitA+"/model.safetensors bytes=20000-"))
}

func TestPullResumesALaterCall(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	c.Retries = -1
	h.deliver = func(w http.ResponseWriter, r *http.Request, data string) bool {
		breakOff(w, data[:len(data)/2], len(data))
		return true
	}
	_, err := c.Pull(t.Context(), repo, "", both[1:], nil)
	require.ErrorContains(t, err, "org/some-model@main: model.safetensors: ")
	_, err = c.Find(repo, "")
	require.ErrorIs(t, err, ErrNotCached)
	h.deliver = nil
	dir, err := c.Pull(t.Context(), repo, "", both[1:], nil)
	require.NoError(t, err)
	require.Equal(t, h.trees[commitA]["model.safetensors"], read(t, dir+"/model.safetensors"))
	require.Equal(t, 1, h.count("cdn: GET /"+commitA+"/model.safetensors bytes=25000-"))
}

func TestPullRestartsWhereRangesAreNotServed(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusRequestedRangeNotSatisfiable} {
		h := newHub(t)
		c := h.client(t)
		h.deliver = func(w http.ResponseWriter, r *http.Request, data string) bool {
			if r.Header.Get("Range") == "" {
				if h.count("GET") < 3 {
					breakOff(w, data[:9], len(data))
				}
				return false
			}
			if status != http.StatusOK {
				w.WriteHeader(status)
				return true
			}
			w.Write([]byte(data))
			return true
		}
		dir, err := c.Pull(t.Context(), repo, "", both[1:], nil)
		require.NoError(t, err)
		require.Equal(t, h.trees[commitA]["model.safetensors"], read(t, dir+"/model.safetensors"))
	}
}

// Files of an earlier run may be wrong, too long, or already complete.
func TestPullMendsWhatWasLeft(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"corrupt": func(s string) string { return "?" + s[1:500] },
		"longer":  func(s string) string { return s + "more" },
		"whole":   func(s string) string { return s },
		"empty":   func(string) string { return "" },
	} {
		h := newHub(t)
		c := h.client(t)
		data := h.trees[commitA]["model.safetensors"]
		blob := c.blobPath(repo, etag("model.safetensors", data))
		require.NoError(t, os.MkdirAll(filepath.Dir(blob), 0o755))
		require.NoError(t, os.WriteFile(blob+".incomplete", []byte(edit(data)), 0o644))
		require.NoError(t, os.WriteFile(blob, []byte("a blob cut short"), 0o644))
		dir, err := c.Pull(t.Context(), repo, "", both[1:], nil)
		require.NoError(t, err, name)
		require.Equal(t, data, read(t, dir+"/model.safetensors"), name)
		require.NoFileExists(t, blob+".incomplete")
	}
}

// Every mistake of a server gives a one-line error and leaves nothing that looks like a file of the
// model.
func TestPullRefusesBadServers(t *testing.T) {
	set := func(key, value string) func(http.Header) {
		return func(h http.Header) {
			h.Set(key,
				value)
		}
	}
	body := func(f func(w http.ResponseWriter, data string)) func(http.ResponseWriter,
		*http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request,
			data string) bool {
			f(w, data)
			return true
		}
	}
	for _, c := range []struct {
		name    string
		meta    func(http.Header)
		deliver func(http.ResponseWriter, *http.Request, string) bool
		want    string
	}{
		{"corrupt", nil, body(func(w http.ResponseWriter,
			d string) {
			w.Write([]byte("?" + d[1:]))
		}), "sha256 of the download is "},
		{"other etag", set("X-Linked-Etag", strings.Repeat("0", 64)), nil, "want 0000000000"},
		{"git etag", set("X-Linked-Etag", strings.Repeat("0", 40)), nil,
			"git hash of the download is "},
		{"etag is no hash", set("X-Linked-Etag", `"abc"`), nil, `ETag is "abc", want`},
		{"etag is a path", set("X-Linked-Etag", `"../../../evil"`), nil,
			`ETag is "../../../evil", want`},
		{"no etag", func(h http.Header) { h.Del("X-Linked-Etag") }, nil, `ETag is "", want`},
		{"no commit", func(h http.Header) { h.Del("X-Repo-Commit") }, nil, `X-Repo-Commit is ""`},
		{"commit is a path", set("X-Repo-Commit", "../.."), nil, `X-Repo-Commit is "../.."`},
		{"size too small", set("X-Linked-Size", "49999"), nil,
			"announces 50000 bytes, missing are 49999 of 49999"},
		{"size too large", set("X-Linked-Size", "50001"), nil,
			"announces 50000 bytes, missing are 50001 of 50001"},
		{"size is enormous", set("X-Linked-Size", "9223372036854775807"), nil,
			"the download has 9223372036854775807 bytes more, and "},
		{"size is negative", set("X-Linked-Size", "-1"), nil, `size is "-1"`},
		{"more than announced", nil, body(func(w http.ResponseWriter, d string) {
			w.(http.Flusher).Flush() // no Content-Length
			w.Write([]byte(d + "more"))
		}), "sends more than the 50000 bytes"},
		{"always less", nil, body(func(w http.ResponseWriter, d string) {
			w.(http.Flusher).Flush()
			w.Write([]byte(d[:3]))
		}), "broke off after 3 of 50000 bytes"},
		{"closes early", nil, body(func(w http.ResponseWriter, d string) {
			breakOff(w, d[:3], len(d))
		}), "broke off after 3 of 50000 bytes"},
		{"other range", nil, func(w http.ResponseWriter, r *http.Request, d string) bool {
			if r.Header.Get("Range") == "" {
				breakOff(w, d[:10], len(d))
			}
			w.Header().Set("Content-Range", "bytes 5-49999/50000")
			w.WriteHeader(http.StatusPartialContent)
			return true
		}, `Content-Range is "bytes 5-49999/50000", want from byte 10`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t)
			h.meta, h.deliver = c.meta, c.deliver
			client := h.client(t)
			_, err := client.Pull(t.Context(), repo, "", both[1:], nil)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "hf_secret")
			for _, name := range tree(t, filepath.Join(client.Cache, cacheFolder(repo))) {
				require.True(t, strings.HasSuffix(name, ".incomplete"), name)
			}
			_, err = client.Find(repo, "")
			require.ErrorIs(t, err, ErrNotCached)
		})
	}
}

// The same bytes again are no progress, however many: attempts end. Bytes beyond those that are
// there are, so a long download may be interrupted any number of times.
func TestProgressIsBytesBeyondThoseThere(t *testing.T) {
	const pieces = 6
	for _, goesOn := range []bool{false, true} {
		h := newHub(t)
		data := strings.Repeat("x", pieces*newProgress)
		h.trees[commitA]["model.safetensors"] = data
		h.deliver = func(w http.ResponseWriter, r *http.Request, _ string) bool {
			start := 0
			if header := r.Header.Get("Range"); goesOn && header != "" {
				_, err := fmt.Sscanf(header, "bytes=%d-", &start)
				require.NoError(t, err)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(data)-1, len(data)))
				w.Header().Set("Content-Length", fmt.Sprint(len(data)-start))
				w.WriteHeader(http.StatusPartialContent)
			}
			end := min(start+newProgress, len(data))
			if !goesOn {
				end = 3 * newProgress
			}
			breakOff(w, data[start:end], len(data))
			return true
		}
		c := h.client(t)
		c.Retries = 3
		_, err := c.Pull(t.Context(), repo, "", both[1:], nil)
		if goesOn {
			require.NoError(t, err)
			require.Equal(t, pieces, h.count("cdn: GET"))
			continue
		}
		require.ErrorContains(t, err, "broke off after")
		require.Equal(t, 1+c.Retries, h.count("cdn: GET"))
	}
}

// Where a server states no length, there is a bound, and nothing of what it sent stays.
func TestUnstatedLengthIsBounded(t *testing.T) {
	before := maxUnstated
	defer func() { maxUnstated = before }()
	maxUnstated = 50000 // those of the file
	unstated := func(header http.Header) { header.Del("X-Linked-Size") }
	for _, extra := range []int{0, 1, 1 << 20} {
		h := newHub(t)
		h.meta = unstated
		h.deliver = func(w http.ResponseWriter, _ *http.Request, data string) bool {
			w.(http.Flusher).Flush() // no Content-Length
			w.Write([]byte(data + strings.Repeat("x", extra)))
			return true
		}
		c := h.client(t)
		_, err := c.Pull(t.Context(), repo, "", both[1:], nil)
		if extra == 0 {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "announces no length and sends more than 50000 bytes")
		data := h.trees[commitA]["model.safetensors"]
		blob := c.blobPath(repo, etag("model.safetensors", data))
		require.Empty(t, read(t, blob+".incomplete"))
	}
}

// A download for which the disk has no room is refused before its bytes, wherever its length is
// stated.
func TestRoomOnTheDisk(t *testing.T) {
	before := freeBytes
	defer func() { freeBytes = before }()
	for _, stated := range []bool{true, false} {
		h := newHub(t)
		h.meta = func(header http.Header) {
			if !stated {
				header.Del("X-Linked-Size")
			}
		}
		freeBytes = func(string) (int64, bool) { return 49999, true }
		_, err := h.client(t).Pull(t.Context(), repo, "", both[1:], nil)
		require.ErrorContains(t, err, "the download has 50000 bytes more, and 49999 are free in ")
		freeBytes = func(string) (int64, bool) { return 50000, true }
		_, err = h.client(t).Pull(t.Context(), repo, "", both[1:], nil)
		require.NoError(t, err)
		freeBytes = func(string) (int64, bool) { return 0, false } // some systems do not say
		_, err = h.client(t).Pull(t.Context(), repo, "", both[1:], nil)
		require.NoError(t, err)
	}
}

func TestPullStaysAtOneCommit(t *testing.T) {
	h := newHub(t)
	h.trees[commitB] = map[string]string{"config.json": "new", "model.safetensors": "new weights"}
	c := h.client(t)
	h.meta = func(http.Header) { // the branch moves right after the first request
		h.mu.Lock()
		h.heads["main"] = commitB
		h.mu.Unlock()
	}
	dir, err := c.Pull(t.Context(), repo, "main", both, nil)
	require.NoError(t, err)
	require.Equal(t, c.snapshotDir(repo, commitA), dir)
	require.Equal(t, `{"a":1}`, read(t, dir+"/config.json"))
	require.Len(t, read(t, dir+"/model.safetensors"), 50000)

	dir, err = c.Pull(t.Context(), repo, "main", both, nil)
	require.NoError(t, err)
	require.Equal(t, c.snapshotDir(repo, commitB), dir)
	require.Equal(t, "new weights", read(t, dir+"/model.safetensors"))
	require.Equal(t, commitB, read(t, c.refPath(repo, "main")))

	h.trees[strings.Repeat("c", 40)] = map[string]string{"config.json": "x"}
	h.meta = func(h http.Header) { h.Set("X-Repo-Commit", commitA) }
	_, err = c.Pull(t.Context(), repo, strings.Repeat("c", 40), []string{"config.json"}, nil)
	require.ErrorContains(t, err, "the server answers for commit "+commitA)
}

func TestTokenStaysWithItsHost(t *testing.T) {
	h := newHub(t)
	_, err := h.client(t).Pull(t.Context(), repo, "", both, nil)
	require.NoError(t, err)
	require.Positive(t, h.count("cdn: GET"))
	require.Zero(t, h.count("cdn: HEAD"))
	for _, line := range h.seen {
		require.Equal(t, strings.HasPrefix(line, "hub:"),
			strings.Contains(line, "Bearer hf_secret"), line)
	}
}

// A mirror that only leads to another hub is one: what it answers says nothing of files. The token
// goes to the mirror alone.
func TestMirrorThatLeadsElsewhere(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		h := newHub(t)
		mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", h.URL+r.URL.RequestURI())
			w.WriteHeader(status)
		}))
		defer mirror.Close()
		c := h.client(t)
		c.Endpoint = mirror.URL
		dir, err := c.Pull(t.Context(), repo, "", both, nil)
		require.NoError(t, err, status)
		require.Len(t, read(t, dir+"/model.safetensors"), 50000)
		for _, line := range h.seen {
			require.NotContains(t, line, "Bearer", line)
		}
	}
}

func TestRedirects(t *testing.T) {
	plain := newHub(t)
	plain.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Location", r.URL.Path) // in circles
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	_, err := plain.client(t).Pull(t.Context(), repo, "", both, nil)
	require.ErrorContains(t, err, "more than 10 redirects")

	renamed := newHub(t)
	renamed.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		rest, ok := strings.CutPrefix(r.URL.Path, "/old/name/")
		if ok {
			w.Header().Set("Location", "/"+repo+"/"+rest)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
		return ok
	}
	dir, err := renamed.client(t).Pull(t.Context(), "old/name", "", both, nil)
	require.NoError(t, err)
	require.Len(t, read(t, dir+"/model.safetensors"), 50000)

	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusFound)
	}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the refused certificate
	var connections atomic.Int32
	secure.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	secure.StartTLS()
	defer secure.Close()
	c := plain.client(t)
	c.Endpoint, c.Transport = secure.URL, secure.Client().Transport
	_, err = c.PullModel(t.Context(), repo, "", nil)
	require.ErrorContains(t, err, "without encryption")
	c.Transport = nil
	before := connections.Load()
	_, err = c.PullModel(t.Context(), repo, "", nil)
	require.ErrorContains(t, err, "certificate")
	require.Equal(t, before+1, connections.Load(), "a refused certificate is not tried again")
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status      int
		code, token string
		want        string
	}{
		{401, "RepoNotFound", "", "no such repository, or it is private (401): check the name, " +
			"or set HF_TOKEN to a token"},
		{401, "", "hf_x", "no such repository, or it is private (401): check the name, or check " +
			"that the token in HF_TOKEN may read it"},
		{403, "GatedRepo", "", "access refused (403): accept the terms at http"},
		{401, "GatedRepo", "hf_x", "access refused (401): accept the terms at http"},
		{403, "", "hf_x", "access refused (403): check that the token in HF_TOKEN may read it"},
		{404, "RevisionNotFound", "", `no revision "main" (404): see http`},
		{404, "EntryNotFound", "", "no such file in the repository (404): see http"},
		{404, "", "", "no such repository, revision or file (404): check the names"},
		{418, "", "", "the server answered 418"},
	} {
		h := newHub(t)
		h.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Error-Code", c.code)
			w.WriteHeader(c.status)
			return true
		}
		client := h.client(t)
		client.Token = c.token
		_, err := client.Pull(t.Context(), repo, "", both, nil)
		require.ErrorContains(t, err, "org/some-model@main: config.json: "+c.want)
		require.NotContains(t, err.Error(), "\n")
		require.Len(t, h.seen, 1, "no second attempt")
		_, err = client.PullModel(t.Context(), repo, "", nil)
		require.Error(t, err)
		require.Len(t, h.seen, 2)
	}
}

func TestRetries(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	h.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		fail := h.count("hub:")%3 != 0
		if fail {
			w.WriteHeader(503)
		}
		return fail
	}
	_, err := c.Pull(t.Context(), repo, "", both, nil)
	require.NoError(t, err)

	h.refuse = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(429); return true }
	c = h.client(t)
	c.Retries = 3
	before := len(h.seen)
	_, err = c.Pull(t.Context(), repo, "", both, nil)
	require.ErrorContains(t, err, "the server answered 429 Too Many Requests")
	require.Len(t, h.seen, before+4)
}

func TestSilentServer(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	c.Idle, c.Retries = 30*time.Millisecond, 1
	h.deliver = func(w http.ResponseWriter, r *http.Request, data string) bool {
		w.Write([]byte(data[:10]))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	_, err := c.Pull(t.Context(), repo, "", both[1:], nil)
	require.ErrorContains(t, err, "the server was silent for 30ms")

	ctx, cancel := context.WithCancel(t.Context())
	c.Idle = time.Minute
	_, err = c.Pull(ctx, repo, "", both[1:], func(Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

func TestConcurrentPulls(t *testing.T) {
	h := newHub(t)
	c := h.client(t)
	h.deliver = func(http.ResponseWriter, *http.Request,
		string) bool {
		time.Sleep(5 * time.Millisecond)
		return false
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := c.Pull(t.Context(), repo, "", both, nil)
			if err == nil {
				_, err = os.ReadFile(dir + "/model.safetensors")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, h.count("cdn: GET"))
	dir, err := c.Find(repo, "")
	require.NoError(t, err)
	require.Equal(t, h.trees[commitA]["model.safetensors"], read(t, dir+"/model.safetensors"))
	for _, name := range tree(t, c.Cache) {
		require.NotContains(t, name, ".incomplete")
		require.NotContains(t, name, ".tmp")
	}
}

func TestListingIsNotTrusted(t *testing.T) {
	for body, want := range map[string]string{
		`{"sha":"` + commitA + `","siblings":[{"rfilename":"../../evil"}]}`: `file ` +
			`is "../../evil", want`,
		`{"sha":"../..","siblings":[]}`: `commit is "../.."`,
		`{"sha":`:                       `list of files is "{\"sha\":", want JSON`,
	} {
		h := newHub(t)
		h.refuse = func(w http.ResponseWriter,
			_ *http.Request) bool {
			w.Write([]byte(body))
			return true
		}
		_, err := h.client(t).PullModel(t.Context(), repo, "", nil)
		require.ErrorContains(t, err, want)
	}
}
