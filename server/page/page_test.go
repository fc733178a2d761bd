package page

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// get asks the handler for a path.
func get(t *testing.T, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, r *http.Response) string {
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(body)
}

func TestSize(t *testing.T) {
	total := 0
	for at, f := range loadFiles() {
		if at != "/openapi.json" {
			total += len(f.content)
		}
	}
	require.LessOrEqual(t, total, 144<<10, "bytes of the page's files")
}

// Every file that another names is there, and none names another place.
func TestNames(t *testing.T) {
	named := map[string]bool{"/": true, "/openapi.json": true}
	quoted := regexp.MustCompile(`(?:from |href=|src=)"([^"]+)"`)
	for at, f := range loadFiles() {
		for _, match := range quoted.FindAllStringSubmatch(string(f.content), -1) {
			name := strings.Replace(match[1], "./", "/page/", 1)
			require.Contains(t, loadFiles(), name, "%s names %s", at, match[1])
			named[name] = true
		}
		if at != "/openapi.json" {
			require.NotContains(t, strings.ReplaceAll(string(f.content), "http://www.w3.org/2000/svg", ""),
				"http://", "%s names another place", at)
		}
		require.NotContains(t, string(f.content), "innerHTML", at)
	}
	for at := range loadFiles() {
		require.True(t, named[at], "nothing names %s", at)
	}
}

func TestHeaders(t *testing.T) {
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8",
		"/page/main.js": "text/javascript; charset=utf-8", "/page/page.css": "text/css; charset=utf-8",
		"/page/icon.svg": "image/svg+xml"} {
		r := get(t, "GET", path)
		require.Equal(t, 200, r.StatusCode)
		require.Equal(t, kind, r.Header.Get("Content-Type"))
		require.Equal(t, Policy, r.Header.Get("Content-Security-Policy"))
		require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", r.Header.Get("Referrer-Policy"))
		require.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
	}
	require.NotContains(t, Policy, "unsafe")
}

func TestTags(t *testing.T) {
	plain := get(t, "GET", "/")
	packed := get(t, "GET", "/", "Accept-Encoding", "br, gzip;q=0.5")
	require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
	require.NotEqual(t, plain.Header.Get("ETag"), packed.Header.Get("ETag"))
	in, err := gzip.NewReader(bytes.NewReader([]byte(read(t, packed))))
	require.NoError(t, err)
	unpacked, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, read(t, plain), string(unpacked))
	require.Empty(t, get(t, "GET", "/", "Accept-Encoding", "gzip;q=0").Header.Get("Content-Encoding"))

	tag := plain.Header.Get("ETag")
	for _, header := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
		r := get(t, "GET", "/", "If-None-Match", header)
		require.Equal(t, http.StatusNotModified, r.StatusCode, header)
		require.Empty(t, read(t, r))
		require.Equal(t, tag, r.Header.Get("ETag"))
	}
	require.Equal(t, 200, get(t, "GET", "/", "If-None-Match", `"other"`).StatusCode)
}

func TestRefused(t *testing.T) {
	for _, path := range []string{"/page/", "/page/page.go", "/page/../page.go", "/index.html", "/x"} {
		require.Equal(t, 404, get(t, "GET", path).StatusCode, path)
		require.NotContains(t, loadFiles(), path)
	}
	r := get(t, "POST", "/")
	require.Equal(t, 405, r.StatusCode)
	require.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
	head := get(t, "HEAD", "/")
	require.Equal(t, 200, head.StatusCode)
	require.NotEmpty(t, head.Header.Get("Content-Length"))
}
