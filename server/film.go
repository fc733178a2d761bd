package server

import (
	"net/http"
	"slices"

	"unmask/generate"
	"unmask/model"
	"unmask/paint"
	"unmask/server/engine"
)

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
	writeBody(w, "image/gif", data)
	return nil
}
