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

// keptAnswer returns the answer with a key, nil where it is not kept, and its call.
func (s *Server) keptAnswer(key string) (a *answer, c *engine.Call) {
	if !hexKey.MatchString(key) {
		return nil, nil
	}
	c = s.calls.Lookup(key)
	if c == nil {
		return nil, nil
	}
	a, _ = callResult(c)
	return a, c
}

// handleResult answers GET /v1/results/{key} and, for a picture, /v1/results/{key}/{file}: 0.png is
// the first picture, 0.gif how it came about. What a key stands for never changes, so clients may
// keep it.
func (s *Server) handleResult(w http.ResponseWriter, r *http.Request) *Fault {
	key := r.PathValue("key")
	file := r.PathValue("file")
	a, c := s.keptAnswer(key)
	name, extension, _ := strings.Cut(file, ".")
	index := -1
	if a != nil && isInteger(name) && (extension == "png" || extension == "gif") {
		if n, err := strconv.Atoi(name); err == nil && n < len(a.images) && n >= 0 {
			index = n
		}
	}
	// A film is drawn from the steps, of which a long call keeps none.
	if a == nil || file != "" && index < 0 || extension == "gif" && c.DroppedEvents() {
		return newFault(http.StatusNotFound, "result_not_found",
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
		return s.sendFilm(w, c.Members[index])
	case file != "":
		writeBody(w, http.StatusOK, "image/png", a.images[index])
	default:
		writeJSON(w, a.body)
	}
	return nil
}

// matchesTag reports whether If-None-Match has a tag.
func matchesTag(header, tag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == tag || candidate == "*" {
			return true
		}
	}
	return false
}

// filmSide is the number of pixels of a side up to which unmask image enlarges small pictures.
const filmSide = 192

// sendFilm sends the GIF of a finished picture, that of unmask image -n 1 --gif. One is drawn at a
// time: its frames are up to 64 pictures.
func (s *Server) sendFilm(w http.ResponseWriter, m *engine.Member) *Fault {
	s.filmMu.Lock()
	defer s.filmMu.Unlock()
	spec := m.Model().Spec()
	pictures := m.Model().Pictures
	start := m.Start()
	film := paint.NewFilm(1, spec, start)
	if width, height, err := pictures.Size(); err == nil {
		film.Scale = filmSide / max(width, height, 1)
	}
	sequence := generate.Sequence{Tokens: slices.Clone(start)}
	for _, e := range m.Events() {
		sequence.Tokens = e.Apply(sequence.Tokens, spec.Mask)
		sequence.Done = e.Done
		film.Add(&sequence)
	}
	condition := func(int) *model.Condition { return m.Request.Condition }
	data, err := film.Encode(pictures, condition)
	if err != nil {
		return newFault(http.StatusInternalServerError, "answer_failed", "the film failed: %s",
			oneLine(err))
	}
	writeBody(w, http.StatusOK, "image/gif", data)
	return nil
}
