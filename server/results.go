package server

import (
	"container/list"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// results keeps works that are done, the latest used first, up to a number of bytes.
type results struct {
	most  int64
	bytes int64
	order list.List // of *kept
	byKey map[string]*list.Element
}

type kept struct {
	*work
	bytes int64
}

// put keeps a work, unless it alone is larger than the bound.
func (r *results) put(w *work) {
	n := w.size()
	if n > r.most || r.byKey[w.key] != nil {
		return
	}
	if r.byKey == nil {
		r.byKey = map[string]*list.Element{}
	}
	r.byKey[w.key] = r.order.PushFront(&kept{w, n})
	r.bytes += n
	for r.bytes > r.most {
		last := r.order.Back()
		old := r.order.Remove(last).(*kept)
		delete(r.byKey, old.key)
		r.bytes -= old.bytes
	}
}

// get returns the work of a key, nil for none.
func (r *results) get(key string) *work {
	at := r.byKey[key]
	if at == nil {
		return nil
	}
	r.order.MoveToFront(at)
	return at.Value.(*kept).work
}

// hexKey is the key of a result.
var hexKey = regexp.MustCompile(`^[0-9a-f]{64}$`)

// oneResult answers GET /v1/results/{key} and, for a picture, /v1/results/{key}/{file}: 0.png is
// the first picture, 0.gif how it came about. What a key stands for never changes.
func (s *Server) oneResult(w http.ResponseWriter, r *http.Request) {
	key, file := r.PathValue("key"), r.PathValue("file")
	var found *work
	if hexKey.MatchString(key) {
		s.mu.Lock()
		found = s.results.get(key)
		for _, j := range s.jobs.byID {
			if found == nil && j.work.key == key {
				found = j.work
			}
		}
		s.mu.Unlock()
	}
	var a *answer
	if found != nil {
		a, _ = found.result()
	}
	index := -1
	name, extension, _ := strings.Cut(file, ".")
	if a != nil && isWhole(name) && (extension == "png" || extension == "gif") {
		if n, err := strconv.Atoi(name); err == nil && n < len(a.images) && n >= 0 {
			index = n
		}
	}
	if a == nil || file != "" && index < 0 || extension == "gif" && found.forgot() {
		fault(http.StatusNotFound, "result_not_found",
			"there is no such result: it was never made, or not kept; ask again").write(w)
		return
	}
	tag := `"` + key + `"`
	if file != "" {
		tag = `"` + key + "-" + file + `"`
	}
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	switch {
	case matchesTag(r.Header.Get("If-None-Match"), tag):
		w.WriteHeader(http.StatusNotModified)
	case extension == "gif":
		s.film(w, found.members[index])
	case file != "":
		writePicture(w, "image/png", a.images[index])
	default:
		writeJSON(w, a.body)
	}
}

// matchesTag reports whether If-None-Match has a tag.
func matchesTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}
