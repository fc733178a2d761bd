package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"unmask/generate"
)

// Hurry makes one of the server's patiences short, before it is asked: header, body, beat or write.
func (s *Server) Hurry(what string, d time.Duration) {
	switch what {
	case "header":
		s.times.header = d
	case "body":
		s.times.body = d
	case "beat":
		s.times.beat = d
	case "write":
		s.times.write = d
	default:
		panic("no patience of the name " + what)
	}
}

// Clock replaces the clock of works and passes, before models are added.
func (s *Server) Clock(now func() time.Time) { s.now = now }

// Pace makes the engines believe that they make so many rows a second, until the next pass ends.
func (s *Server) Pace(rows float64) {
	for _, e := range s.engines() {
		e.Pace(rows)
	}
}

// Neutral returns the fields of other servers, each with the values that change no answer; nil
// where every value is one.
func Neutral() map[string][]string {
	out := map[string][]string{}
	for _, of := range neutralFields {
		for _, name := range of.names {
			out[name] = of.values
		}
	}
	return out
}

// Reading returns whether there is memory for no more of the bytes of JSON, or of forms, that are
// read.
func (s *Server) Reading(forms bool) bool {
	among := s.bodies
	if forms {
		among = s.forms
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	back, err := among.Take(ctx, "", 1<<20)
	if err == nil {
		back()
	}
	return err != nil
}

// Watching returns how many clients wait for calls that are not done.
func (s *Server) Watching() int { return s.calls.Watchers() }

// Prepared returns what the first sequence of an HTTP request is prepared as, without making it.
// kind is completions, chat, infill, images or edits.
func (s *Server) Prepared(kind string, r *http.Request) (generate.Request, error) {
	read, body := map[string]reader{"completions": s.ofModel(wantsText, s.completions),
		"chat": s.chats, "infill": s.ofModel(wantsText, s.infill),
		"images": s.ofModel(wantsPictures, s.generations)}[kind], s.readBody
	if kind == "edits" {
		read, body = s.ofModel(wantsPictures, s.edits), s.readForm
	}
	f, fault := body(httptest.NewRecorder(), r)
	if fault != nil {
		return generate.Request{}, fault
	}
	defer f.free()
	q, _ := read(r, f)
	if fault := f.end(); fault != nil {
		return generate.Request{}, fault
	}
	return q.sequences[0], nil
}

// Routes returns the method and the path of every public route, such as "GET /v1/models".
func (s *Server) Routes() []string {
	var list []string
	for _, r := range s.routes() {
		for method := range r.methods {
			list = append(list, method+" "+r.pattern)
		}
	}
	slices.Sort(list)
	return list
}
