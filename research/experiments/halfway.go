package experiments

import (
	"context"
	"errors"
	"math"
	"slices"
)

// errWorse ends a setting that Tune would drop after its round.
var errWorse = errors.New("the setting is clearly worse than others")

// halfway is a task that stops, with errWorse, the settings of a round of Tune that are clearly
// worse after half of their n samples: such a setting would be worse than three quarters of the
// finished ones even if its second half improved it by as much as any of theirs did.
//
// It follows the median stopping rule (Golovin et al. 2017, "Google Vizier", section 3.2.2), with a
// lower bar and a margin from the round itself, so that chance hardly ever stops the best.
type halfway struct {
	Task
	n         int
	now       float64   // quality of the current setting after half, NaN if unknown
	qualities []float64 // of the finished settings
	gain      float64   // the most that the second half of one of them improved it
}

// fewest is the number of finished settings before one is stopped.
const fewest = 8

// Scorer implements Task.
func (h *halfway) Scorer(n int) Scorer {
	h.now = math.NaN()
	return &halfScorer{Scorer: h.Task.Scorer(n), of: h}
}

// finished notes the quality of a setting that was not stopped.
func (h *halfway) finished(quality float64) {
	h.qualities = append(h.qualities, quality)
	if !math.IsNaN(h.now) {
		h.gain = max(h.gain, h.now-quality)
	}
}

// worse reports whether the current setting is clearly worse.
func (h *halfway) worse() bool {
	if len(h.qualities) < fewest {
		return false
	}
	sorted := slices.Sorted(slices.Values(h.qualities))
	return h.now-h.gain > sorted[3*len(sorted)/4]
}

// halfScorer is the scorer of a setting.
type halfScorer struct {
	Scorer
	of   *halfway
	seen int
}

// Add implements Scorer.
func (s *halfScorer) Add(ctx context.Context, tokens [][]int32) error {
	if err := s.Scorer.Add(ctx, tokens); err != nil {
		return err
	}
	before := s.seen
	s.seen += len(tokens)
	if 2*before >= s.of.n || 2*s.seen < s.of.n || s.seen >= s.of.n {
		return nil
	}
	m, err := s.Metrics(ctx)
	if err != nil {
		return err
	}
	if s.of.now = Quality(m); s.of.worse() {
		return errWorse
	}
	return nil
}
