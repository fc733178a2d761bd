package server

import (
	"net/http"
	"slices"

	"unmask"
	"unmask/generate"
	"unmask/model"
)

// film sends the GIF of a finished picture, that of unmask image -n 1 --gif. One is drawn at a
// time: its frames are up to 64 pictures.
func (s *Server) film(w http.ResponseWriter, m *member) {
	s.films.Lock()
	defer s.films.Unlock()
	of := m.work.model
	start := m.start()
	f := unmask.NewFilm(1, of.spec, start)
	const seen = 192 // pixels of a side up to which unmask image enlarges small pictures
	if width, height, err := of.Pictures.Size(); err == nil {
		f.Scale = seen / max(width, height, 1)
	}
	now := generate.Sequence{Tokens: slices.Clone(start)}
	events, _, _ := m.work.since(0)
	for _, e := range events {
		if e.choice != m.choice {
			continue
		}
		for _, o := range e.Opened {
			now.Tokens[o.Position] = o.Token
		}
		for _, p := range e.Closed {
			now.Tokens[p] = of.spec.Mask
		}
		now.Done = e.Done
		f.Add(&now)
	}
	data, err := f.Encode(of.Pictures, func(int) *model.Condition { return m.request.Condition })
	if err != nil {
		fault(http.StatusInternalServerError, "answer_failed", "the film failed: %s",
			oneLine(err)).write(w)
		return
	}
	writePicture(w, "image/gif", data)
}
