package experiments

import (
	"cmp"
	"context"
	"fmt"
)

// Sweep measures the points that the journal lacks, in order, and appends each result at once.
// progress, which may be nil, is called after each step with the finished share of the work, that
// of earlier runs too; if it returns false the sweep ends with ErrStopped, and the same call later
// continues it. If a point cannot run on the model Sweep returns an error before it measures any.
func Sweep(ctx context.Context, j *Journal, t Task, points []Point,
	progress func(share float64) bool) error {
	if err := CheckPoints(t, points); err != nil {
		return err
	}
	finished := 0.0
	total := 0.0 // in steps of a sequence
	for _, p := range points {
		total += pointCost(p)
	}
	for _, p := range points {
		if _, ok := j.Find(t.Kind, p); !ok {
			r, err := MeasurePoint(ctx, t, p, func(share float64) bool {
				return progress == nil || progress((finished+share*pointCost(p))/total)
			})
			if err == ErrStopped {
				return err
			} else if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			if err := j.Append(r); err != nil {
				return err
			}
		}
		finished += pointCost(p)
	}
	return nil
}

// CheckPoints returns an error that names the first point that cannot run on a task's model.
func CheckPoints(t Task, points []Point) error {
	var first error
	n := 0
	for _, p := range points {
		if err := p.Check(t.Model); err != nil {
			first = cmp.Or(first, err)
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("%w; %d of %d points cannot run", first, n, len(points))
	}
	return first
}

// pointCost returns a point's cost in steps of a sequence.
func pointCost(p Point) float64 { return float64(p.N) * float64(max(p.Steps, 1)) }
