//go:build !nofleet

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Status describes the progress of a run.
type Status struct {
	Done    int            `json:"done"` // outputs that are there
	N       int            `json:"n"`
	Rate    float64        `json:"rate"`         // outputs a second since the hub began
	Left    float64        `json:"seconds_left"` // -1 where it is not known
	Workers []WorkerStatus `json:"workers"`
	Counts
}

// WorkerStatus is a worker as the hub sees it.
type WorkerStatus struct {
	Name     string  `json:"name"`
	Device   string  `json:"device"`
	Made     int     `json:"made"`
	Rate     float64 `json:"rate"`      // outputs a second, by its own clock
	Seen     float64 `json:"last_sign"` // seconds ago
	Expelled string  `json:"expelled,omitempty"`
}

// Counts are the numbers of events besides outputs.
type Counts struct {
	Copies     int `json:"copies"`     // of late jobs
	Duplicates int `json:"duplicates"` // outputs that were there already
	Damaged    int `json:"damaged"`    // results that arrived with other bytes than were sent
	Dropped    int `json:"dropped"`    // messages that were none, or not asked for
	Refused    int `json:"refused"`    // requests to join
	Expelled   int `json:"expelled"`   // workers
}

// String is one line.
func (s Status) String() string {
	line := fmt.Sprintf("%d of %d, %.3g/s", s.Done, s.N, s.Rate)
	if s.Left >= 0 {
		line += fmt.Sprintf(", %s left", (time.Duration(s.Left) * time.Second).String())
	}
	workers := 0
	for _, w := range s.Workers {
		if w.Expelled == "" {
			workers++
		}
	}
	line += fmt.Sprintf(", %d workers:", workers)
	const shown = 6
	for i, w := range s.Workers {
		if i == shown {
			line += fmt.Sprintf(" and %d more", len(s.Workers)-shown)
			break
		}
		if w.Expelled != "" {
			line += fmt.Sprintf(" %s expelled", w.Name)
			continue
		}
		line += fmt.Sprintf(" %s %.3g/s", w.Name, w.Rate)
		if w.Seen > 20 {
			line += fmt.Sprintf(" (silent for %.0f s)", w.Seen)
		}
	}
	return line
}

// status is the state now.
func (s *session) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Done: s.r.N - s.missing, N: s.r.N, Left: -1, Counts: s.count}
	if made := st.Done - s.already; made > 0 {
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
