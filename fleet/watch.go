//go:build !nofleet

package fleet

import (
	"maps"
	"slices"
)

// status is the state now.
func (s *session) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Done: s.done, N: s.r.N, Left: -1, Counts: s.count}
	if made := s.done - s.already; made > 0 {
		st.Rate = float64(made) / s.h.o.now.since(s.began).Seconds()
		st.Left = float64(s.missing) / st.Rate
	}
	for _, name := range slices.Sorted(maps.Keys(s.peers)) {
		p := s.peers[name]
		st.Workers = append(st.Workers, WorkerStatus{p.name, p.device, p.made, p.rate,
			s.h.o.now.since(p.seen).Seconds(), p.expelled})
	}
	return st
}
