// Package likelihood measures log p(answer | rest) of a masked diffusion model: how probable it
// finds tokens, given all others of a sequence.
//
// Such a model has a probability for each order in which the answer's L tokens may open: the
// product of the tokens' marginals, each given the tokens opened before it (the chain rule). An
// exact model has the same in every order. A network does not quite, and what is usually reported
// is the mean over all orders of the logarithm. It is a lower bound of the log-probability of
// opening the tokens in a random order one by one, by Jensen's inequality.
//
// The mean over orders has L! terms, but it is also the mean over k, uniform from 1 to L, and over
// masks of k positions, of
//
//	L/k * sum over the masked i of log p(x_i | all that is not masked)
//
// (Nie et al. 2025, "Large language diffusion models", equation 6; Ou et al. 2024, "Your absorbing
// discrete diffusion secretly models the conditional distributions of clean data"). The methods
// MonteCarlo and Stratified draw k and masks, Random draws orders; all three have this mean.
// LeftToRight and the orders of samplers are exact for one order.
//
// Models with blocks (model.Spec.Block) are measured block by block, each given the clean tokens
// before it, and the sum is reported. Models that run left to right (model.NextToken) have the
// chain rule in one pass and nothing else.
package likelihood

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// The methods that are not an order of package samplers.
const (
	// MonteCarlo draws k and then k positions, independently for each pass (LLaDA's estimate).
	MonteCarlo = "monte-carlo"
	// Stratified draws two values of k from each of Passes/2 equal parts of 1..L. If there are no
	// more masks than passes, each mask is taken once, and the mean over orders is exact.
	Stratified = "stratified"
	// Random is the chain rule in random orders, at least two of them: a pass for each token.
	Random = "random"
	// LeftToRight is the chain rule in the order of the text.
	LeftToRight = "left-to-right"
)

// Options say how an answer is measured.
type Options struct {
	// Method is one of the constants above, or an order of package samplers, such as "confidence":
	// the chain rule in the order in which that sampler would open the answer's own tokens, one a
	// step. "" is LeftToRight for models that run left to right, otherwise Stratified.
	Method string
	// Passes is the number of masks, of each block if the model has blocks; 0 means 128, LLaDA's
	// number. Stratified rounds it up to an even number, Random to whole orders.
	Passes int
	Seed   uint64

	// Index is the number of the answer among those of its seed: other indexes draw other masks.
	Index uint32

	// Batch is the number of sequences in a call of the model; 0 means about 2048 rows.
	Batch int

	// Progress, when not nil, is called after each call of the model.
	Progress func(done, total int)

	// Turn is waited for before each call of the model.
	Turn model.Turn
}

// PassesParam describes Options.Passes.
var PassesParam = param.Param{
	Name:    "passes",
	Kind:    param.Whole,
	Min:     2,
	Max:     1 << 16,
	Default: "128",
	Help:    "masks for each answer, or for each of its blocks",
}

const defaultPasses = 128

// Estimate is what a model says of one answer. Its slices have one value for each of its tokens.
type Estimate struct {
	// LogProb is the sum of LogP, in nats.
	LogProb float64

	// Error is its standard error, in nats; 0 if nothing was drawn.
	Error float64

	// LogP is the share of each token. In the chain rule it is log p of the token given those before
	// it in the order; otherwise it is a mean over draws of what is masked beside the token, so a
	// share has no meaning without the others.
	LogP []float64
	// Best is the answer's own token if it was the most probable one wherever it was masked, and
	// otherwise one that was more probable. BestLogP is LogP's mean for the most probable tokens: in
	// the chain rule log p of Best.
	Best     []int32
	BestLogP []float64

	// Passes is the number of sequences that went through the model.
	Passes int
}

// IsGreedy reports whether every token of the answer was the most probable one.
func (e *Estimate) IsGreedy(answer []int32) bool { return slices.Equal(e.Best, answer) }

// Measure measures the answer tokens[start:end], given all other tokens. These may be masked: they
// are then unknown, not absent. It takes the model's lock for one call of the model at a time. A
// range or a method that the model cannot measure is an error, as a context that ends is.
func Measure(ctx context.Context, d model.Denoiser, tokens []int32, start, end int,
	o Options) (*Estimate, error) {
	m, err := newMeasure(d, tokens, start, end, o)
	if err != nil {
		return nil, err
	}
	m.estimate = &Estimate{
		LogP:     make([]float64, end-start),
		Best:     slices.Clone(tokens[start:end]),
		BestLogP: make([]float64, end-start),
	}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	for _, l := range m.estimate.LogP {
		m.estimate.LogProb += l
	}
	return m.estimate, nil
}

// CountPasses returns the number of sequences that Measure sends through the model, or the
// error that it would return for options and answers that cannot be measured.
func CountPasses(d model.Denoiser, tokens []int32, start, end int, o Options) (int, error) {
	m, err := newMeasure(d, tokens, start, end, o)
	if err != nil {
		return 0, err
	}
	return m.total, nil
}

// measure is the work on one answer.
type measure struct {
	Options
	denoiser model.Denoiser
	spec     model.Spec
	tokens   []int32

	// The answer has the tokens from..to-1.
	from int
	to   int

	// order is Method if that is one of samplers, and otherwise nil.
	order samplers.Order

	// parts are measured one after the other. plans are theirs, unless the order depends on the
	// marginals or there is one pass.
	parts []part
	plans []plan

	estimate *Estimate

	// done and total count the sequences that go through the model.
	done  int
	total int
}

// newMeasure returns the work on an answer, planned but not begun, or an error for one that cannot
// be measured.
func newMeasure(d model.Denoiser, tokens []int32, start, end int, o Options) (*measure, error) {
	m := &measure{denoiser: d, spec: d.Spec(), tokens: tokens, from: start, to: end, Options: o}
	if err := m.check(); err != nil {
		return nil, err
	}
	m.splitAnswer()
	switch {
	case m.spec.Causal == model.NextToken:
		m.total = 1
	case m.order != nil:
		m.total = end - start
	default:
		for i, p := range m.parts {
			m.plans = append(m.plans, m.planPart(i, p))
			m.total += len(m.plans[i].masks)
		}
	}
	return m, nil
}

// check completes the options, or returns an error for what cannot be measured.
func (m *measure) check() error {
	if m.from < 0 || m.from >= m.to || m.to > len(m.tokens) {
		return fmt.Errorf("the answer is tokens %d to %d of %d, want at least one", m.from, m.to-1,
			len(m.tokens))
	}
	for i, t := range m.tokens[m.from:m.to] {
		if t < 0 || int(t) >= m.spec.Outcomes || t == m.spec.Mask {
			return fmt.Errorf("token %d of the answer is %d, want one of 0 to %d that is not the mask", i, t,
				m.spec.Outcomes-1)
		}
	}
	if err := m.Options.Check(); err != nil {
		return err
	}
	m.Passes = cmp.Or(m.Passes, defaultPasses)
	causal := m.spec.Causal == model.NextToken
	switch {
	case m.Method == "" && causal:
		m.Method = LeftToRight
	case m.Method == "":
		m.Method = Stratified
	case causal && m.Method != LeftToRight:
		return &param.Error{
			Name:   "method",
			Found:  m.Method,
			Reason: param.Unsupported,
			Want:   LeftToRight + ": this model's known tokens see only those before them",
		}
	}
	if causal && m.from == 0 {
		return &param.Error{
			Name:   "prompt",
			Found:  "empty",
			Reason: param.OutOfRange,
			Want:   "at least one token: this model predicts the next one",
		}
	}
	m.order, _ = parseMethod(m.Method) // Check has looked at the error
	return nil
}

// Check returns an error for options that no model can have.
func (o Options) Check() error {
	if _, err := parseMethod(o.Method); err != nil {
		return err
	}
	if err := PassesParam.CheckInt(o.Passes); err != nil {
		return err
	}
	return param.RefuseUnless(o.Batch >= 0, "batch", strconv.Itoa(o.Batch), "1 or more",
		param.OutOfRange)
}

// parseMethod returns the order that a method is, nil for the others.
func parseMethod(name string) (samplers.Order, error) {
	switch name {
	case "", MonteCarlo, Stratified, Random, LeftToRight:
		return nil, nil
	}
	refusal := &param.Error{
		Name:  "method",
		Found: param.Quote(name),
		Want:  "monte-carlo, stratified, random, left-to-right or an order of samplers, such as confidence",
	}
	s, err := samplers.Parse(name)
	if err != nil {
		refusal.Reason = param.NoSuch
		return nil, refusal
	}
	c, ok := s.(samplers.ChooseThenSample)
	if !ok {
		return nil, refusal
	}
	// An order that draws tokens or reads logits itself cannot be followed over given tokens.
	if need := s.Needs(1, 1); need.Draw || need.Logits || c.Gamma != 0 {
		return nil, refusal
	}
	return c.Order, nil
}

// part is a piece of the answer that is measured by itself: its positions are from..to-1, and the
// model sees those before `end`.
type part struct {
	from int
	to   int
	end  int
}

// splitAnswer makes a part of each of the answer's blocks, or of all of it if the model has none.
func (m *measure) splitAnswer() {
	size := cmp.Or(m.spec.Block, len(m.tokens))
	for start := m.from; start < m.to; {
		end := min(start/size*size+size, len(m.tokens))
		p := part{from: start, to: min(end, m.to), end: end}
		if m.spec.Fixed {
			p.end = len(m.tokens)
		}
		m.parts = append(m.parts, p)
		start = p.to
	}
}

// run measures all parts. The errors of their estimates are independent, so their squares add up.
func (m *measure) run(ctx context.Context) error {
	if m.spec.Causal == model.NextToken {
		return m.runCausal(ctx)
	}
	squares := 0.0
	for i, p := range m.parts {
		if m.order != nil {
			if err := m.followOrder(ctx, p); err != nil {
				return err
			}
			continue
		}
		square, err := m.averageDraws(ctx, p, m.plans[i])
		if err != nil {
			return err
		}
		squares += square
	}
	m.estimate.Error = math.Sqrt(squares)
	return nil
}
