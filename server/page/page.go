// Package page is the live page of the server: one HTML file, one style sheet and plain ES modules,
// embedded as they are.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed files
var files embed.FS

//go:embed openapi.json
var description []byte

// Description returns openapi.json, the description of the server's API by OpenAPI 3.0.
func Description() []byte { return bytes.Clone(description) }

// Policy is the page's Content-Security-Policy: scripts, styles and requests of its own origin
// alone, nothing inline, no frame around it.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; " +
	"img-src 'self' data: blob:; media-src blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; " +
	"form-action 'none'"

// file is one file as it is sent.
type file struct {
	content []byte

	// compressed is content as gzip has it.
	compressed []byte

	contentType string

	// tag is the ETag of content, without quotes.
	tag string
}

// loadFiles reads the embedded files, by the path that they are asked for. It compresses them once,
// when the first is asked for, so that a server whose page nobody opens does not.
var loadFiles = sync.OnceValue(func() map[string]file {
	byPath := map[string]file{"/openapi.json": newFile("openapi.json", description)}
	entries, err := files.ReadDir("files")
	if err != nil {
		panic(fmt.Sprintf("page: embedded files: %v", err))
	}
	for _, e := range entries {
		content, err := files.ReadFile("files/" + e.Name())
		if err != nil {
			panic(fmt.Sprintf("page: embedded files: %v", err))
		}
		urlPath := "/page/" + e.Name()
		if e.Name() == "index.html" {
			urlPath = "/"
		}
		byPath[urlPath] = newFile(e.Name(), content)
	}
	return byPath
})

// newFile returns the file of a name with this content.
func newFile(name string, content []byte) file {
	var compressed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	_, _ = w.Write(content) // a buffer refuses nothing
	_ = w.Close()
	sum := sha256.Sum256(content)
	return file{
		content:     content,
		compressed:  compressed.Bytes(),
		contentType: contentTypes[path.Ext(name)],
		tag:         hex.EncodeToString(sum[:8]),
	}
}

// contentTypes are those of files by their extensions. The machine's own table of types is not
// used, because it may be wrong.
var contentTypes = map[string]string{
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".svg":  "image/svg+xml",
	".json": "application/json",
}

// Handler answers GET and HEAD for the page: the HTML at "/", its files below "/page/", and
// "/openapi.json". Answers have an ETag of their content, and browsers ask again each time: a new
// version shows at once.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := loadFiles()[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Type", f.contentType)
		h.Set("Vary", "Accept-Encoding")
		content := f.content
		tag := f.tag
		if acceptsGzip(r.Header.Get("Accept-Encoding")) {
			content = f.compressed
			tag += "-gzip"
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("ETag", `"`+tag+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}

// acceptsGzip reports whether an Accept-Encoding header takes gzip. A quality of 0 says that it
// does not.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if strings.EqualFold(name, "gzip") {
			return strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != "" || quality == ""
		}
	}
	return false
}
