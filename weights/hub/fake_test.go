package hub

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	repo    = "org/some-model"
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// fakeHub serves one repository as the Hub does: small files by themselves,
// *.safetensors by a redirect to another host with X-Linked headers.
type fakeHub struct {
	*httptest.Server
	cdn *httptest.Server

	mu      sync.Mutex
	heads   map[string]string            // revision -> commit
	trees   map[string]map[string]string // commit -> file -> contents
	seen    []string                     // "METHOD path [Range] [token]", hosts as hub: or cdn:
	meta    func(h http.Header)          // changes the metadata of a file
	deliver func(w http.ResponseWriter, r *http.Request, data string) bool
	refuse  func(w http.ResponseWriter, r *http.Request) bool
}

func init() { cachedTimeout = 5 * time.Minute }

func newHub(t *testing.T) *fakeHub {
	h := &fakeHub{
		heads: map[string]string{"main": commitA, "feature/x": commitA},
		trees: map[string]map[string]string{commitA: {
			"config.json":       `{"a":1}`,
			"model.safetensors": strings.Repeat("0123456789", 5000),
			"sub/dir/extra.txt": "extra",
			".gitattributes":    "",
		}},
	}
	h.Server = httptest.NewServer(http.HandlerFunc(h.hub))
	h.cdn = httptest.NewServer(http.HandlerFunc(h.content))
	t.Cleanup(h.Close)
	t.Cleanup(h.cdn.Close)
	return h
}

func (h *fakeHub) client(t *testing.T) *Client {
	return &Client{Cache: t.TempDir(), Endpoint: h.URL, Token: "hf_secret",
		Backoff: time.Millisecond, Idle: 5 * time.Minute}
}

func etag(file, data string) string {
	if strings.HasSuffix(file, ".safetensors") {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
	}
	g := newGitHash(int64(len(data)))
	g.Write([]byte(data))
	return fmt.Sprintf("%x", g.Sum(nil))
}

func (h *fakeHub) note(host string, r *http.Request) {
	line := host + ": " + r.Method + " " + r.URL.EscapedPath()
	if v := r.Header.Get("Range"); v != "" {
		line += " " + v
	}
	if v := r.Header.Get("Authorization"); v != "" {
		line += " " + v
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, line)
}

// count returns the requests seen whose line contains part.
func (h *fakeHub) count(part string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.seen {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (h *fakeHub) commit(revision string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trees[revision] != nil {
		return revision
	}
	return h.heads[revision]
}

func (h *fakeHub) hub(w http.ResponseWriter, r *http.Request) {
	h.note("hub", r)
	if h.refuse != nil && h.refuse(w, r) {
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api/models/"+repo+"/revision/"); ok {
		commit := h.commit(rest)
		fmt.Fprintf(w, `{"sha":%q,"siblings":[`, commit)
		sep := ""
		for file := range h.trees[commit] {
			fmt.Fprintf(w, `%s{"rfilename":%q}`, sep, file)
			sep = ","
		}
		fmt.Fprint(w, "]}")
		return
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/"+repo+"/resolve/")
	revision, file, _ := strings.Cut(rest, "/")
	commit := h.commit(strings.ReplaceAll(revision, "%2F", "/"))
	data, found := h.trees[commit][file]
	if !ok || !found {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(404)
		return
	}
	w.Header().Set("X-Repo-Commit", commit)
	if strings.HasSuffix(file, ".safetensors") {
		w.Header().Set("X-Linked-Etag", `"`+etag(file, data)+`"`)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
		if h.meta != nil {
			h.meta(w.Header())
		}
		http.Redirect(w, r, h.cdn.URL+"/"+commit+"/"+file, http.StatusFound)
		return
	}
	w.Header().Set("ETag", `W/"`+etag(file, data)+`"`)
	if h.meta != nil {
		h.meta(w.Header())
	}
	h.send(w, r, data)
}

func (h *fakeHub) content(w http.ResponseWriter, r *http.Request) {
	h.note("cdn", r)
	commit, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	h.send(w, r, h.trees[commit][file])
}

func (h *fakeHub) send(w http.ResponseWriter, r *http.Request, data string) {
	if h.deliver == nil || r.Method == http.MethodHead || !h.deliver(w, r, data) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(data))
	}
}

// breakOff sends a part and closes the connection.
func breakOff(w http.ResponseWriter, part string, length int) {
	w.Header().Set("Content-Length", strconv.Itoa(length))
	fmt.Fprint(w, part)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func read(t *testing.T, name string) string {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// tree returns what is below dir, relative, links with their targets.
func tree(t *testing.T, dir string) (names []string) {
	require.NoError(t, walkFiles(dir, func(_ fs.FS, name string) {
		if target, err := os.Readlink(dir + "/" + name); err == nil {
			name += " -> " + target
		}
		names = append(names, name)
	}))
	return names
}
