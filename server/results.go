package server

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unmask/generate"
	"unmask/model"
	"unmask/paint"
	"unmask/server/engine"
)

// hexKey is the key of a result.
var hexKey = regexp.MustCompile(`^[0-9a-f]{64}$`)

// kept returns the answer with a key, nil where it is not kept, and its call.
func (s *Server) kept(key string) (a *answer, found *engine.Call) {
	if hexKey.MatchString(key) {
		found = s.calls.Lookup(key)
	}
	if found != nil {
		a, _ = resultOf(found)
	}
	return a, found
}

// oneResult answers GET /v1/results/{key} and, for a picture, /v1/results/{key}/{file}: 0.png is
// the first picture, 0.gif how it came about. What a key stands for never changes.
func (s *Server) oneResult(w http.ResponseWriter, r *http.Request) *Fault {
	key, file := r.PathValue("key"), r.PathValue("file")
	a, found := s.kept(key)
	index := -1
	name, extension, _ := strings.Cut(file, ".")
	if a != nil && isWhole(name) && (extension == "png" || extension == "gif") {
		if n, err := strconv.Atoi(name); err == nil && n < len(a.images) && n >= 0 {
			index = n
		}
	}
	if a == nil || file != "" && index < 0 || extension == "gif" && found.DroppedEvents() {
		return fault(http.StatusNotFound, "result_not_found",
			"there is no such result: it was never made, or not kept; ask again")
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
		return s.film(w, found.Members[index])
	case file != "":
		writeBody(w, http.StatusOK, "image/png", a.images[index])
	default:
		writeJSON(w, a.body)
	}
	return nil
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

// film sends the GIF of a finished picture, that of unmask image -n 1 --gif. One is drawn at a
// time: its frames are up to 64 pictures.
func (s *Server) film(w http.ResponseWriter, m *engine.Member) *Fault {
	s.filmMu.Lock()
	defer s.filmMu.Unlock()
	of := m.Model()
	start, mask := m.Start(), of.Spec().Mask
	f := paint.NewFilm(1, of.Spec(), start)
	const seen = 192 // pixels of a side up to which unmask image enlarges small pictures
	if width, height, err := of.Pictures.Size(); err == nil {
		f.Scale = seen / max(width, height, 1)
	}
	now := generate.Sequence{Tokens: slices.Clone(start)}
	for _, e := range m.Events() {
		now.Tokens, now.Done = e.Apply(now.Tokens, mask), e.Done
		f.Add(&now)
	}
	data, err := f.Encode(of.Pictures, func(int) *model.Condition { return m.Request.Condition })
	if err != nil {
		return fault(http.StatusInternalServerError, "answer_failed", "the film failed: %s",
			oneLine(err))
	}
	writeBody(w, http.StatusOK, "image/gif", data)
	return nil
}
