// Package scores measures sequences by a model: how likely each token is given the others, and what
// the model thinks of mutations.
package scores

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unmask"
	"unmask/internal/philox"
	"unmask/model"
)

// Options say which positions are masked when a token is scored.
type Options struct {
	// Parts is the number of passes of a sequence: pass i masks every position p with p % Parts = i.
	// 0 masks one position at a time; -1 masks none (wild-type marginals).
	Parts int
	// Share, if not 0, masks positions at random with this probability, in one pass; only these are
	// scored.
	Share float64
	Seed  uint64
}

// Score is what a model thinks of one sequence. Its slices have one value for each token of the
// text.
type Score struct {
	Tokens []int32   // of the text, without those around it
	LogP   []float64 // nats; NaN where a position is not scored
	Best   []int32   // the most probable token; -1 where a position is not scored

	logits [][]float32 // [tokens][outcomes] log-probabilities; nil where not scored
}

// Right returns the number of scored positions, and at how many the most probable token is right.
func (s *Score) Right() (scored, right int) {
	for i, b := range s.Best {
		if b >= 0 {
			scored++
			if b == s.Tokens[i] {
				right++
			}
		}
	}
	return scored, right
}

// Perplexity is exp of the mean of -LogP over the scored positions.
func (s *Score) Perplexity() float64 {
	sum, n := 0.0, 0
	for _, l := range s.LogP {
		if !math.IsNaN(l) {
			sum, n = sum+l, n+1
		}
	}
	return math.Exp(-sum / float64(n))
}

// Of scores a text. stream numbers it, for Options.Share.
func Of(ctx context.Context, m *unmask.Model, text string, stream uint32, o Options) (*Score,
	error) {
	if m.Text == nil {
		return nil, fmt.Errorf("the model makes no text")
	}
	inner, err := m.Text.Encode(text)
	if err != nil {
		return nil, err
	}
	spec := m.Spec()
	if len(inner) == 0 || len(inner) > spec.Length()-spec.Around() {
		return nil, fmt.Errorf("the text is %d tokens, want 1 to %d", len(inner),
			spec.Length()-spec.Around())
	}
	s := &Score{Tokens: inner, LogP: slices.Repeat([]float64{math.NaN()}, len(inner)),
		Best: slices.Repeat([]int32{-1}, len(inner)), logits: make([][]float32, len(inner))}
	for _, hidden := range o.passes(len(inner), stream) {
		if err := s.pass(ctx, m, hidden, o.Parts < 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// passes returns the positions that each pass scores.
func (o Options) passes(n int, stream uint32) (list [][]int) {
	parts := o.Parts
	switch {
	case o.Share > 0:
		var some []int
		r := philox.Stream{Seed: o.Seed, Sequence: stream}
		for p := range n {
			if r.Uniform(p, philox.Order) < o.Share {
				some = append(some, p)
			}
		}
		if some == nil {
			return nil
		}
		return [][]int{some}
	case parts < 0:
		parts = 1
	case parts == 0 || parts > n:
		parts = n
	}
	list = make([][]int, parts)
	for p := range n {
		list[p%parts] = append(list[p%parts], p)
	}
	return list
}

// pass scores some positions, which are masked unless they are visible.
func (s *Score) pass(ctx context.Context, m *unmask.Model, positions []int, visible bool) error {
	spec := m.Spec()
	tokens := slices.Concat(spec.Before, s.Tokens, spec.After)
	first := len(spec.Before)
	rows := make([]int32, len(positions))
	for i, p := range positions {
		rows[i] = int32(first + p)
		if !visible {
			tokens[first+p] = spec.Mask
		}
	}
	lock := model.LockOf(m.Denoiser)
	lock.Lock()
	defer lock.Unlock()
	b := &model.Batch{Size: 1, Length: len(tokens), Tokens: tokens, Read: rows}
	marginals, err := m.Forward(ctx, b)
	if err != nil {
		return err
	}
	return marginals.Visit(rows, func(i int, logits []float32) {
		s.take(positions[i], logits[:spec.Outcomes])
	})
}

// take sets what logits say of a position.
func (s *Score) take(p int, logits []float32) {
	top, sum := math.Inf(-1), 0.0
	for t, l := range logits {
		if float64(l) > top {
			top, s.Best[p] = float64(l), int32(t)
		}
	}
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	logSum := float32(top + math.Log(sum))
	s.logits[p] = slices.Clone(logits)
	for t := range s.logits[p] {
		s.logits[p][t] -= logSum
	}
	s.LogP[p] = float64(s.logits[p][s.Tokens[p]])
}
