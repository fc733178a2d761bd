package server

import (
	"net/http/httptest"
	"time"

	"unmask/generate"
	"unmask/internal/jsonline"
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

// Watching returns how many clients and jobs wait for calls that are not done.
func (s *Server) Watching() int { return s.calls.Watching() }

// Prepared returns what the first sequence of a request's body is prepared as, without making it.
// kind is that of a job: completions, chat, infill or images.
func (s *Server) Prepared(kind string, body []byte) (generate.Request, error) {
	object, err := jsonline.Object(body)
	if err != nil {
		return generate.Request{}, err
	}
	f := &fields{object: object}
	a, _ := s.readers()[kind](httptest.NewRequest("POST", "/", nil), f)
	if fault := f.end(); fault != nil {
		return generate.Request{}, fault
	}
	return a.sequences[0], nil
}
