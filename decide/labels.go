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

// Turn waits until the model may be called once more, and returns what is called after it; nil: it
// may at once.
type Turn func(context.Context) (done func(), err error)

// take waits for the turn to call the model and takes its lock, until done is called.
func (t Turn) take(ctx context.Context, d model.Denoiser) (done func(), err error) {
	over := func() {}
	if t != nil {
		if over, err = t(ctx); err != nil {
			return nil, err
		}
	}
	lock := model.LockOf(d)
	lock.Lock()
	return func() { lock.Unlock(); over() }, ctx.Err()
}

// rows is about the number of positions of one call of the model.
const rows = 2048

// sequence goes through the model for the tokens that labels have at one position.
type sequence struct {
	tokens []int32
	at     int
	looks  []look
}

// look is a token whose log-probability is a summand of a label's.
type look struct {
	of    *float64
	token int32
}

// Labels returns what the model says of the labels of rows. All labels of a row that are one token
// are read in one pass; others take a pass for each of their tokens. It takes the model's lock for
// one call of the model at a time. Numbers do not depend on what else is in the list.
func Labels(ctx context.Context, d model.Denoiser, list []Row, turn Turn) ([]Found, error) {
	spec, out := d.Spec(), make([]Found, len(list))
	var all []*sequence
	for i := range list {
		out[i].LogP = make([]float64, len(list[i].Labels))
		made, err := list[i].sequences(spec, out[i].LogP)
		if err != nil {
			return nil, err
		}
		out[i].Passes, all = len(made), append(all, made...)
	}
	slices.SortStableFunc(all, func(a, b *sequence) int { return len(a.tokens) - len(b.tokens) })
	for len(all) > 0 {
		length, n := len(all[0].tokens), 1
		for n < len(all) && spec.Causal != model.NextToken && len(all[n].tokens)*(n+1) <= rows &&
			(spec.Ragged || len(all[n].tokens) == length) {
			length, n = len(all[n].tokens), n+1
		}
		if err := pass(ctx, d, all[:n], length, turn); err != nil {
			return nil, err
		}
		all = all[n:]
	}
	for i, f := range out {
		if !(f.Mass() > 0) {
			return nil, fmt.Errorf("row %d: no label is possible", i)
		}
	}
	return out, nil
}

// sequences returns what goes through the model for a row. logP gets the labels' sums.
func (r *Row) sequences(spec model.Spec, logP []float64) (list []*sequence, err error) {
	if r.At < 0 || r.At >= len(r.Tokens) || r.Tokens[r.At] != spec.Mask {
		return nil, fmt.Errorf("position %d of %d is not masked", r.At, len(r.Tokens))
	}
	known := map[string]*sequence{} // by a label's length and its first tokens
	for i, label := range r.Labels {
		for j := range label {
			key := fmt.Sprint(len(label), label[:j])
			s := known[key]
			if s == nil {
				if s, err = r.sequence(spec, label, j); err != nil {
					return nil, fmt.Errorf("label %d: %w", i, err)
				}
				known[key], list = s, append(list, s)
			}
			s.looks = append(s.looks, look{&logP[i], label[j]})
		}
		if same := slices.IndexFunc(r.Labels[:i], func(other []int32) bool {
			return slices.Equal(other, label)
		}); same >= 0 || len(label) == 0 {
			return nil, fmt.Errorf("label %d is %v, want tokens that no other label has", i, label)
		}
	}
	return list, nil
}

// sequence returns the row with a label's first j tokens and masks for the others.
func (r *Row) sequence(spec model.Spec, label []int32, j int) (*sequence, error) {
	more := slices.Repeat([]int32{spec.Mask}, len(label)-1)
	tokens := slices.Concat(r.Tokens[:r.At+1], more, r.Tokens[r.At+1:])
	if spec.Fixed {
		tokens = slices.Clone(r.Tokens)
		if end := r.At + len(label); end > len(tokens) || !slices.Equal(tokens[r.At+1:end], more) {
			return nil, fmt.Errorf("%d tokens at position %d, want masks for all of them", len(label), r.At)
		}
	}
	copy(tokens[r.At:], label[:j])
	if spec.Causal == model.NextToken {
		tokens = tokens[:r.At+j+1]
	}
	return &sequence{tokens: tokens, at: r.At + j}, nil
}

// pass computes sequences of at most `length` tokens.
func pass(ctx context.Context, d model.Denoiser, list []*sequence, length int, turn Turn) error {
	spec := d.Spec()
	b := &model.Batch{Size: len(list), Length: length}
	for i, s := range list {
		tokens := slices.Grow(slices.Clone(s.tokens), length-len(s.tokens))[:length]
		b.Tokens, b.Lengths = append(b.Tokens, tokens...), append(b.Lengths, len(s.tokens))
		b.Time = append(b.Time, float64(spec.Masked(s.tokens))/float64(len(s.tokens)))
		b.Read = append(b.Read, int32(i*length+s.at))
	}
	if !spec.Ragged {
		b.Lengths = nil
	}
	done, err := turn.take(ctx, d)
	if err != nil {
		if done != nil {
			done()
		}
		return err
	}
	defer done()
	forward := d.Forward
	if spec.Causal == model.NextToken {
		forward = func(ctx context.Context, b *model.Batch) (model.Marginals, error) {
			return feed(ctx, d, b)
		}
	}
	marginals, err := forward(ctx, b)
	if err != nil {
		return err
	}
	sums := make([]float64, len(list))
	logits := make([][]float32, len(list)) // of the looked up tokens
	err = marginals.Visit(b.Read, func(i int, all []float32) {
		sums[i] = logSum(all[:spec.Outcomes], spec.Mask)
		for _, l := range list[i].looks {
			logits[i] = append(logits[i], all[l.token])
		}
	})
	for i, s := range list {
		if err == nil && (math.IsNaN(sums[i]) || math.IsInf(sums[i], 0)) {
			err = fmt.Errorf("the logits of position %d are no distribution", s.at)
		}
		for j, l := range s.looks {
			*l.of += float64(logits[i][j]) - sums[i]
		}
	}
	return err
}

// feed computes what a model that runs left to right predicts for its sequence's last token.
func feed(ctx context.Context, d model.Denoiser, b *model.Batch) (model.Marginals, error) {
	feeder, ok := d.(model.Feeder)
	if !ok || b.Length < 2 {
		return nil, fmt.Errorf("the model has no causal pass over %d tokens", b.Length-1)
	}
	var fed []int32
	for p := range b.Length - 1 {
		fed = append(fed, int32(p))
	}
	b.Lengths, b.Cache = []int{b.Length - 1}, feeder.NewCache(1, b.Length)
	return feeder.Feed(ctx, b, fed, model.Commit)
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
