package server

import "time"

// Hurry makes the server's patience short, before it is asked.
func (s *Server) Hurry(d time.Duration) {
	s.times = times{header: d, body: d, idle: 4 * d, beat: d / 4, write: d, stall: d}
}
