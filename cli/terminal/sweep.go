package terminal

import (
	"time"

	"unmask/research/experiments"
)

// Sweep is a Progress in thousandths of the work; without a bar it prints a line for each point.
// One goroutine at a time may use one.
type Sweep struct {
	*Progress
	index int
	start time.Time
	last  time.Time
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
	return &Sweep{Progress: NewProgress(kind, 1000), index: -1, start: time.Now(), first: -1}
}

// Show updates to a sweep's progress.
func (s *Sweep) Show(p experiments.Progress) {
	share := p.Done / p.Total
	if s.first < 0 {
		s.first = share
	}
	if s.bar != nil {
		s.Set(int64(1000 * share))
		return
	}
	if time.Since(s.last) < Every || p.Index == s.index {
		return
	}
	s.last, s.index = time.Now(), p.Index
	left := ""
	if share > s.first {
		left = ", " + time.Duration(float64(time.Since(s.start))*(1-share)/(share-s.first)).
			Round(time.Second).String() + " left"
	}
	Say("%s: point %d of %d (%s), %.0f %%%s", p.Kind, p.Index+1, p.Points, p.Point, 100*share, left)
}
