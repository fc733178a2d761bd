package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"

	"unmask/generate"
)

// Hurry makes one of the server's patiences short, before it is asked: header, body, beat or write.
func (s *Server) Hurry(what string, d time.Duration) {
	switch what {
	case "header":
		s.timeouts.header = d
	case "body":
		s.timeouts.body = d
	case "beat":
		s.timeouts.heartbeat = d
	case "write":
		s.timeouts.write = d
	default:
		panic("no patience of the name " + what)
	}
}

// Clock replaces the clock of works and passes, before models are added.
func (s *Server) Clock(now func() time.Time) { s.now = now }

// Neutral returns the fields of other servers, each with the values that change no answer; nil
// where every value is one.
func Neutral() map[string][]string {
	all := map[string][]string{}
	for _, group := range neutralFields {
		for _, name := range group.names {
			all[name] = group.values
		}
	}
	return all
}

// Reading returns whether there is memory for no more of the bytes of JSON, or of forms, that are
// read.
func (s *Server) Reading(forms bool) bool {
	memory := s.bodies
	if forms {
		memory = s.forms
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	giveBack, err := memory.Take(ctx, "", 1<<20)
	if err == nil {
		giveBack()
	}
	return err != nil
}

// Watching returns how many clients wait for calls that are not done.
func (s *Server) Watching() int { return s.calls.Watchers() }

// Prepared returns what the first sequence of an HTTP request is prepared as, without making it.
// kind is completions, chat, infill, images or edits.
func (s *Server) Prepared(kind string, r *http.Request) (generate.Request, error) {
	body := s.readBody
	read := map[string]reader{"completions": s.withModel(needsText, s.readCompletions),
		"chat": s.readChat, "infill": s.withModel(needsText, s.readInfill),
		"images": s.withModel(needsPictures, s.readGenerations)}[kind]
	if kind == "edits" {
		body = s.readForm
		read = s.withModel(needsPictures, s.readEdits)
	}
	f, fault := body(httptest.NewRecorder(), r)
	if fault != nil {
		return generate.Request{}, fault
	}
	defer f.release()
	q, _ := read(r, f)
	if fault := f.finish(); fault != nil {
		return generate.Request{}, fault
	}
	return q.sequences[0], nil
}

// TakesNames reports whether an object of n unknown names is refused, and taken where every name is
// accepted.
func TakesNames(n int) bool {
	f := &fields{object: map[string]json.RawMessage{}}
	for i := range n {
		f.object[strconv.Itoa(i)] = json.RawMessage("0")
	}
	isRefused := f.finish() != nil
	f.acceptAll()
	return isRefused && (&fields{object: f.object, known: f.known, isKnown: f.isKnown}).finish() == nil
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
