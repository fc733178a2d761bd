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

// Row is a place in a sequence at which one of some labels stands.
type Row struct {
	// a sequence with one mask at At. A longer label takes further masks, which are put after it or,
	// where the model has one length only, must be there.
	Tokens []int32
	At     int
	Labels [][]int32 // their tokens, all different
}

// Found is what a model says of a row's labels.
type Found struct {
	// nats, among all that the model may write there. For a label of several tokens it is the chain
	// rule from left to right over as many masks.
	LogP   []float64
	Passes int // sequences that went through the model
}

// Mass returns the probability of all labels together. Where labels have different lengths it is a
// sum over texts of different lengths and may exceed 1.
func (f *Found) Mass() (sum float64) {
	for _, l := range f.LogP {
		sum += math.Exp(l)
	}
	return sum
}

// Labels returns what the model says of the labels of rows. All labels of a row that are one token
// are read in one pass; others take a pass for each of their tokens. It takes the model's lock for
// one call of the model at a time. Numbers do not depend on what else is in the list.
func Labels(ctx context.Context, d model.Denoiser, list []Row, turn model.Turn) ([]Found, error) {
	out := make([]Found, len(list))
	var masked [][]int32 // of rows that are read in one pass
	var of []int
	for i := range list {
		out[i] = Found{make([]float64, len(list[i].Labels)), 1}
		atOnce, err := list[i].check(d.Spec())
		if err == nil && !atOnce {
			out[i].Passes = 0
			err = list[i].chain(ctx, d, turn, &out[i])
		} else if err == nil {
			masked, of = append(masked, list[i].Tokens), append(of, i)
		}
		if err != nil {
			return nil, err
		}
	}
	err := model.Groups(d.Spec(), masked, func(group []int) error {
		return pass(ctx, d, list, model.Pick(of, group), turn, out)
	})
	for i := range out {
		if err == nil && !(out[i].Mass() > 0) {
			err = fmt.Errorf("row %d: no label is possible", i)
		}
	}
	return out, err
}

// check returns an error for a row that has no answer, and whether all its labels are one token
// that a pass with a mask predicts.
func (r *Row) check(spec model.Spec) (atOnce bool, err error) {
	if r.At < 0 || r.At >= len(r.Tokens) || r.Tokens[r.At] != spec.Mask {
		return false, fmt.Errorf("position %d of %d is not masked", r.At, len(r.Tokens))
	}
	atOnce = spec.Causal != model.NextToken
	for i, label := range r.Labels {
		same := slices.IndexFunc(r.Labels[:i], func(other []int32) bool {
			return slices.Equal(other, label)
		})
		switch end := r.At + len(label); {
		case same >= 0 || len(label) == 0:
			return false, fmt.Errorf("label %d is %v, want tokens that no other label has", i, label)
		case spec.Fixed && (end > len(r.Tokens) || spec.Masked(r.Tokens[r.At:end]) < len(label)):
			return false, fmt.Errorf("label %d: %d tokens at position %d, want masks for all of them", i,
				len(label), r.At)
		}
		atOnce = atOnce && len(label) == 1
	}
	return atOnce, nil
}

// chain measures each label alone.
func (r *Row) chain(ctx context.Context, d model.Denoiser, turn model.Turn, out *Found) error {
	for i, label := range r.Labels {
		after := r.Tokens[r.At+1:]
		if d.Spec().Fixed {
			after = r.Tokens[r.At+len(label):]
		}
		e, err := likelihood.Of(ctx, d, slices.Concat(r.Tokens[:r.At], label, after), r.At,
			r.At+len(label), likelihood.Options{Method: likelihood.LeftToRight, Turn: turn})
		if err != nil {
			return err
		}
		out.LogP[i], out.Passes = e.LogProb, out.Passes+e.Passes
	}
	return nil
}

// pass computes some rows.
func pass(ctx context.Context, d model.Denoiser, list []Row, group []int, turn model.Turn,
	out []Found) error {
	var tokens [][]int32
	for _, at := range group {
		tokens = append(tokens, list[at].Tokens)
	}
	spec := d.Spec()
	b := model.Ragged(spec, tokens)
	for i, at := range group {
		b.Read = append(b.Read, int32(i*b.Length+list[at].At))
	}
	done, err := turn.Take(ctx, d)
	if err != nil {
		return err
	}
	defer done()
	marginals, err := d.Forward(ctx, b)
	if err != nil {
		return err
	}
	return marginals.Visit(b.Read, func(i int, logits []float32) {
		sum := logSum(logits[:spec.Outcomes], spec.Mask)
		for j, label := range list[group[i]].Labels {
			out[group[i]].LogP[j] = float64(logits[label[0]]) - sum
		}
	})
}

// logSum returns the logarithm of the sum of exp of all logits but the mask's.
func logSum(logits []float32, mask int32) float64 {
	top, sum := math.Inf(-1), 0.0
	for t, l := range logits {
		if int32(t) != mask {
			top = max(top, float64(l))
		}
	}
	for t, l := range logits {
		if int32(t) != mask {
			sum += math.Exp(float64(l) - top)
		}
	}
	return top + math.Log(sum)
}

// softmax returns probabilities of logits divided by a temperature.
func softmax(logits []float64, temperature float64) []float64 {
	top, sum, p := slices.Max(logits), 0.0, make([]float64, len(logits))
	for i, l := range logits {
		p[i] = math.Exp((l - top) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
