package server

import "time"

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
		e.mu.Lock()
		e.rate = rows
		e.mu.Unlock()
	}
}

// Watching returns how many clients and jobs wait for work that is not done.
func (s *Server) Watching() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.inflight {
		n += w.watching()
	}
	return n
}
