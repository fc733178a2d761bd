package terminal

import "unmask/research/experiments"

// Sweep is a Progress of the points that the journal lacks. One goroutine at a time may use one.
type Sweep struct {
	*Progress
	left  int
	first float64 // fraction done at the start
}

// NewSweep begins with the points that the journal has.
func NewSweep(j *experiments.Journal, kind string, points []experiments.Point) *Sweep {
	left := 0
	for _, p := range points {
		if _, ok := j.Find(kind, p); !ok {
			left++
		}
	}
	Say("%s: %s, %d of them left", kind, Count(len(points), "point"), left)
	return &Sweep{NewProgress(kind, int64(left)), left, -1}
}

// Show updates to a sweep's progress.
func (s *Sweep) Show(p experiments.Progress) {
	share := p.Done / p.Total
	if s.first < 0 {
		s.first = share
	}
	s.Set(int64(float64(s.left) * (share - s.first) / max(1-s.first, 1e-9)))
}
