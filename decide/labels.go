// Package decide answers typed questions by a masked model: yes or no, one of some options, a level
// of a scale. The options are letters in a prompt that ends in one mask, and their probabilities
// there are the answer, so a question takes one pass and several questions are rows of one batch.
// Laya's networks have a head for such questions instead (encoders.Laya).
//
// Labels is the engine: it works on any model.Denoiser. Ask makes prompts of questions, and
// Calibrate fits temperatures to questions with known answers.
package decide

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unmask/likelihood"
	"unmask/model"
)

// Query is a place in a sequence at which one of some labels stands.
type Query struct {
	// a sequence with one mask at At. A longer label takes further masks, which are put after it or,
	// where the model has one length only, must be there.
	Tokens   []int32
	Position int
	Labels   [][]int32 // their tokens, all different
}

// LabelScores is what a model says of a row's labels.
type LabelScores struct {
	// nats, among all that the model may write there. Where a label of the row has several tokens it
	// is likelihood.Measure's chain rule from left to right over as many masks, among special tokens
	// too.
	LogP   []float64
	Passes int // sequences that went through the model
}

// Mass returns the probability of all labels together. Where labels have different lengths it is a
// sum over texts of different lengths and may exceed 1.
func (f *LabelScores) Mass() (sum float64) {
	for _, l := range f.LogP {
		sum += math.Exp(l)
	}
	return sum
}

// ScoreLabels returns what the model says of the labels of rows. All labels of a row that are one
// token are read in one pass; others take a pass for each of their tokens. It takes the model's
// lock for one call of the model at a time. Numbers do not depend on what else is in the list.
func ScoreLabels(ctx context.Context, d model.Denoiser, list []Query,
	turn model.Turn) ([]LabelScores, error) {
	out := make([]LabelScores, len(list))
	var masked [][]int32 // of rows that are read in one pass
	var of []int
	for i := range list {
		out[i] = LabelScores{make([]float64, len(list[i].Labels)), 1}
		atOnce, err := list[i].check(d.Spec())
		if err == nil && !atOnce {
			out[i].Passes = 0
			err = list[i].chain(ctx, d, turn, &out[i])
		} else if err == nil {
			masked = append(masked, list[i].Tokens)
			of = append(of, i)
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	if n := shared(d, list, of); n > 0 {
		err = rest(ctx, d, list, of, n, turn, out)
	} else {
		err = model.VisitGroups(d.Spec(), masked, func(group []int) error {
			return pass(ctx, d, model.Pick(masked, group), list, model.Pick(of, group), turn, out)
		})
	}
	for i := range out {
		if err == nil && !(out[i].Mass() > 0) {
			err = fmt.Errorf("row %d: no label is possible", i)
		}
	}
	return out, err
}

// check returns an error for a row that has no answer, and whether all its labels are one token
// that a pass with a mask predicts.
func (r *Query) check(spec model.Spec) (atOnce bool, err error) {
	if r.Position < 0 || r.Position >= len(r.Tokens) || r.Tokens[r.Position] != spec.Mask {
		return false, fmt.Errorf("position %d of %d is not masked", r.Position, len(r.Tokens))
	}
	atOnce = spec.Causal != model.NextToken
	for i, label := range r.Labels {
		same := slices.IndexFunc(r.Labels[:i], func(other []int32) bool {
			return slices.Equal(other, label)
		})
		wrong := slices.ContainsFunc(label, func(t int32) bool {
			return t < 0 || int(t) >= spec.Outcomes || t == spec.Mask
		})
		switch end := r.Position + len(label); {
		case same >= 0 || len(label) == 0:
			return false, fmt.Errorf("label %d is %v, want tokens that no other label has", i, label)
		case wrong:
			return false, fmt.Errorf("label %d is %v, want tokens of 0 to %d that are not the mask", i,
				label, spec.Outcomes-1)
		case spec.Fixed && (end > len(r.Tokens) ||
			spec.CountMasked(r.Tokens[r.Position:end]) < len(label)):
			return false, fmt.Errorf("label %d: %d tokens at position %d, want masks for all of them", i,
				len(label), r.Position)
		}
		atOnce = atOnce && len(label) == 1
	}
	return atOnce, nil
}

// chain measures each label alone.
func (r *Query) chain(ctx context.Context, d model.Denoiser, turn model.Turn,
	out *LabelScores) error {
	for i, label := range r.Labels {
		after := r.Tokens[r.Position+1:]
		if d.Spec().Fixed {
			after = r.Tokens[r.Position+len(label):]
		}
		e, err := likelihood.Measure(ctx, d, slices.Concat(r.Tokens[:r.Position], label, after),
			r.Position,
			r.Position+len(label), likelihood.Options{Method: likelihood.LeftToRight, Turn: turn})
		if err != nil {
			return err
		}
		out.LogP[i] = e.LogProb
		out.Passes = out.Passes + e.Passes
	}
	return nil
}

// pass computes the rows of a group, whose tokens are given.
func pass(ctx context.Context, d model.Denoiser, tokens [][]int32, list []Query, group []int,
	turn model.Turn, out []LabelScores) error {
	b := model.NewRaggedBatch(d.Spec(), tokens)
	for i, at := range group {
		b.ReadRows = append(b.ReadRows, int32(i*b.Length+list[at].Position))
	}
	return read(ctx, d, turn, b, nil, list, group, out)
}

// read computes a batch, or some of its rows, and reads the labels of a group of the list.
func read(ctx context.Context, d model.Denoiser, turn model.Turn, b *model.Batch, rows []int32,
	list []Query, group []int, out []LabelScores) error {
	done, err := turn.Acquire(ctx, d)
	if err != nil {
		return err
	}
	defer done()
	var marginals model.Marginals
	if rows == nil {
		marginals, err = d.Forward(ctx, b)
	} else {
		marginals, err = d.(model.Refiner).Refine(ctx, b, rows)
	}
	if err != nil || len(group) == 0 {
		return err
	}
	spec := d.Spec()
	return marginals.Visit(b.ReadRows, func(i int, logits []float32) {
		sum := likelihood.LogSum(logits[:spec.Outcomes], spec.Mask)
		for j, label := range list[group[i]].Labels {
			out[group[i]].LogP[j] = float64(logits[label[0]]) - sum
		}
	})
}

// passRows is about the number of rows that a pass over few of them costs beside its own.
const passRows = 32

// shared returns how many positions rows begin with that need no pass for each: equal ones in
// blocks before those of the masks, which no later block changes; 0 if too few to be worth it.
func shared(d model.Denoiser, list []Query, of []int) (n int) {
	_, refines := d.(model.Refiner)
	spec := d.Spec()
	if !refines || spec.Block == 0 || spec.Causal != model.NotCausal || len(of) < 2 {
		return 0
	}
	first := list[of[0]].Tokens
	n = len(first)
	for _, at := range of {
		for i, x := range list[at].Tokens[:list[at].Position] {
			if i >= n || x != first[i] {
				n = min(n, i)
				break
			}
		}
		n = min(n, list[at].Position)
	}
	n = n / spec.Block * spec.Block
	if n*(len(of)-1) < passRows*len(of) {
		return 0
	}
	return n
}

// rest computes rows that begin with the same n tokens: these once, then what follows them in each.
func rest(ctx context.Context, d model.Denoiser, list []Query, of []int, n int, turn model.Turn,
	out []LabelScores) error {
	longest := 0
	for _, at := range of {
		longest = max(longest, len(list[at].Tokens))
	}
	cache := d.(model.Refiner).NewCache(1, longest)
	some := func(tokens []int32, from, mask int, group []int) error {
		b := model.NewRaggedBatch(d.Spec(), [][]int32{tokens})
		b.Cache = cache
		b.CacheReused = true
		b.ReadRows = []int32{int32(mask)}
		var rows []int32
		for row := from; row < len(tokens); row++ {
			rows = append(rows, int32(row))
		}
		return read(ctx, d, turn, b, rows, list, group, out)
	}
	err := some(list[of[0]].Tokens[:n], 0, n-1, nil)
	for i := 0; i < len(of) && err == nil; i++ {
		row := &list[of[i]]
		err = some(row.Tokens, n, row.Position, of[i:i+1])
	}
	return err
}
