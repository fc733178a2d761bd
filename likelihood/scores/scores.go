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
	"unmask/likelihood"
	"unmask/model"
)

// Options say which positions are masked when a token is scored.
type Options struct {
	// Positions are the positions that are masked and scored, from 0 and rising; nil means all.
	Positions []int

	// Passes is the number of passes of a sequence: pass i masks position i and every Passes-th after
	// it. 0 masks one position at a time, 1 all of them at once; -1 masks none (wild-type marginals).
	Passes int

	// MaskShare, if not 0, masks positions at random with this probability, in one pass; only these
	// are scored.
	MaskShare float64
	Seed      uint64

	// Visit, if not nil, is called with the logits [outcomes] of each scored position, -Inf for
	// tokens that may not be drawn, and with the logarithm of the sum of their exp.
	Visit func(position int, logits []float32, logSum float64)
}

// Score is what a model thinks of one sequence. Its slices have one value for each token of the
// text.
type Score struct {
	// Tokens are those of the text, without those around it.
	Tokens []int32

	// LogP is in nats; NaN where a position is not scored.
	LogP []float64

	// Best is the most probable token; -1 where a position is not scored.
	Best []int32
}

// CountRight returns the number of scored positions, and at how many the most probable token is
// right.
func (s *Score) CountRight() (scored, right int) {
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
	sum := 0.0
	n := 0
	for _, l := range s.LogP {
		if !math.IsNaN(l) {
			sum += l
			n++
		}
	}
	return math.Exp(-sum / float64(n))
}

// EncodeText returns a text's tokens, without those around it. One that the model cannot score is
// an error.
func EncodeText(m *unmask.Model, text string) ([]int32, error) {
	if m.Text == nil {
		return nil, fmt.Errorf("the model makes no text")
	}
	tokens, err := m.Text.Encode(text)
	if err != nil {
		return tokens, err
	}
	maxTokens := m.Spec().Length() - m.Spec().SpecialCount()
	if len(tokens) == 0 || len(tokens) > maxTokens {
		return tokens, fmt.Errorf("the text is %d tokens, want 1 to %d", len(tokens), maxTokens)
	}
	return tokens, nil
}

// ScoreTokens scores tokens. Probabilities are normalised over the tokens that may be drawn or,
// with Spec.AllRows, over all of the head's rows. A token that may not be drawn, such as ESM-2's
// X and gaps, would have none there, so its probability is normalised over all of the head's
// rows. stream numbers the sequence, for Options.MaskShare.
func ScoreTokens(ctx context.Context, m *unmask.Model, tokens []int32, stream uint32,
	o Options) (*Score, error) {
	s := &Score{
		Tokens: tokens,
		LogP:   slices.Repeat([]float64{math.NaN()}, len(tokens)),
		Best:   slices.Repeat([]int32{-1}, len(tokens)),
	}
	for _, positions := range o.splitPositions(len(tokens), stream) {
		if err := s.scorePositions(ctx, m, positions, o); err != nil {
			return nil, err
		}
		if err := s.checkScores(positions); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// scorePositions scores positions in one pass.
func (s *Score) scorePositions(ctx context.Context, m *unmask.Model, positions []int,
	o Options) error {
	marginals, rows, unlock, err := computePass(ctx, m, s.Tokens, positions, o.Passes < 0)
	if err != nil {
		return err
	}
	defer unlock()
	spec := m.Spec()
	sums := map[int]float64{} // by position, over all rows of the head
	if spec.AllRows {
		err := visitAll(marginals, spec, positions, func(p int, logits []float32) {
			sums[p] = likelihood.LogSum(logits, -1)
		})
		if err != nil {
			return err
		}
	}
	var undrawable []int // positions of tokens that may not be drawn
	err = marginals.Visit(rows, func(i int, logits []float32) {
		position := positions[i]
		logits = logits[:spec.Outcomes]
		if !s.setScore(position, logits) {
			undrawable = append(undrawable, position)
		}
		sum, ok := sums[position]
		if ok {
			s.LogP[position] = float64(logits[s.Tokens[position]]) - sum
		} else {
			sum = likelihood.LogSum(logits, -1)
		}
		if o.Visit != nil {
			o.Visit(position, logits, sum)
		}
	})
	if err != nil || len(undrawable) == 0 {
		return err
	}
	return visitAll(marginals, spec, undrawable, func(p int, logits []float32) {
		s.LogP[p] = float64(logits[s.Tokens[p]]) - likelihood.LogSum(logits, -1)
	})
}

// splitPositions returns the positions that each pass scores, of a sequence of n tokens.
func (o Options) splitPositions(n int, stream uint32) (list [][]int) {
	positions := o.Positions
	if positions == nil {
		positions = model.Indexes(0, n)
	}
	passes := o.Passes
	switch {
	case o.MaskShare > 0:
		r := philox.Stream{Seed: o.Seed, Sequence: stream}
		positions = slices.DeleteFunc(slices.Clone(positions), func(p int) bool {
			return r.Uniform(p, philox.Order) >= o.MaskShare
		})
		passes = 1
	case passes < 0:
		passes = 1
	case passes == 0:
		passes = len(positions)
	}
	list = make([][]int, min(passes, len(positions)))
	for i, p := range positions {
		list[i%len(list)] = append(list[i%len(list)], p)
	}
	return list
}

// computePass computes the marginals of tokens of which some positions are masked, unless they are
// visible, and their rows. The marginals are valid until unlock is called; with an error it need
// not be.
func computePass(ctx context.Context, m *unmask.Model, tokens []int32, positions []int,
	visible bool) (marginals model.Marginals, rows []int32, unlock func(), err error) {
	spec := m.Spec()
	tokens = slices.Concat(spec.BeforeText, tokens, spec.AfterText)
	for _, p := range positions {
		row := len(spec.BeforeText) + p
		rows = append(rows, int32(row))
		if !visible {
			tokens[row] = spec.Mask
		}
	}
	lock := model.LockOf(m.Denoiser)
	lock.Lock()
	b := &model.Batch{Size: 1, Length: len(tokens), Tokens: tokens, ReadRows: rows}
	if marginals, err = m.Forward(ctx, b); err != nil {
		lock.Unlock()
	}
	return marginals, rows, lock.Unlock, err
}

// visitAll calls see with the logits [outcomes] of positions, those of tokens that may not be drawn
// among them.
func visitAll(marginals model.Marginals, spec model.Spec, positions []int,
	see func(p int, logits []float32)) error {
	raw, ok := marginals.(model.Raw)
	if ok {
		marginals = raw.Raw()
	}
	rows := make([]int32, len(positions))
	for i, p := range positions {
		row := len(spec.BeforeText) + p
		if ok && spec.Shifted && row > 0 { // the network's own outputs are not shifted
			row--
		}
		rows[i] = int32(row)
	}
	return marginals.Visit(rows, func(i int, logits []float32) {
		see(positions[i], logits[:spec.Outcomes])
	})
}

// checkScores returns an error for scored positions whose logits have no softmax. -Inf is the
// logarithm of a probability of 0, and a result.
func (s *Score) checkScores(positions []int) error {
	for _, p := range positions {
		if math.IsNaN(s.LogP[p]) || math.IsInf(s.LogP[p], 1) {
			return noDistribution(p)
		}
	}
	return nil
}

// noDistribution is the error of a position whose logits weights that overflow have made.
func noDistribution(position int) error {
	return fmt.Errorf("the logits of position %d are no distribution, want finite numbers: the "+
		"weights or the precision are unfit", position+1)
}

// setScore sets what logits say of a position. It reports false if they forbid its token.
func (s *Score) setScore(p int, logits []float32) (drawable bool) {
	for t, l := range logits {
		if b := s.Best[p]; b < 0 || l > logits[b] {
			s.Best[p] = int32(t)
		}
	}
	logit := float64(logits[s.Tokens[p]])
	s.LogP[p] = logit - likelihood.LogSum(logits, -1)
	return !math.IsInf(logit, -1)
}
