// Package guide is classifier-free guidance (Ho and Salimans 2022, "Classifier-free diffusion
// guidance"): each sequence is computed with its condition (logits c) and without it (logits u), in
// one batch of twice the size, and its logits become c + w(c-u).
//
// Logits are linear in the input of an output head, so the two inputs are mixed before the head: it
// runs once, and everything that uses its marginals works unchanged.
package guide

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"unmask/kvcache"
	"unmask/model"
	"unmask/param"
)

// Scale returns the scale w of a step.
type Scale func(p model.Progress) float64

// ScheduleNames are the names that ParseSchedule reads.
var ScheduleNames = []string{"constant", "linear", "ramp", "cosine", "power-cosine"}

// schedules are the formulas of ScheduleNames: w of a step, given the authors' scale s.
var schedules = map[string]func(s float64, p model.Progress) float64{
	"constant": func(s float64, _ model.Progress) float64 { return s },
	"linear":   func(s float64, p model.Progress) float64 { return s * shareBefore(p) },
	"ramp": func(s float64, p model.Progress) float64 {
		return s * float64(p.N-1) / float64(max(p.Steps-1, 1))
	},
	"cosine": func(s float64, p model.Progress) float64 {
		return (s-1)*(1-math.Cos(math.Pi*float64(p.N)/float64(max(p.Steps, 1))))/2 + 1
	},
	"power-cosine": func(s float64, p model.Progress) float64 {
		return (s - 1) * (1 - math.Cos(math.Pi*math.Pow(shareBefore(p), 3))) / 2
	},
}

// Schedule returns the published schedule with a name, "" for constant, and the scale s that its
// authors give. With n the step, from 1, and N the number of steps, w is
//
//	constant      s
//	linear        s (n-1)/N (Yu et al. 2024, TiTok): the first step has none
//	ramp          s (n-1)/(N-1) (Besnier et al. 2025, Halton-MaskGIT): the last step has all
//	cosine        1 + (s-1)(1-cos(pi n/N))/2 (Kim et al. 2025, MaskGen)
//	power-cosine  (s-1)(1-cos(pi ((n-1)/N)^3))/2 (Yu et al. 2024, of logits u + (1+w)(c-u))
//
// Authors who write u + s(c-u), as aMUSEd's do, have a constant w of s-1.
func Schedule(name string, s float64) (Scale, error) {
	w := schedules[cmp.Or(name, "constant")]
	if w == nil {
		return nil, fmt.Errorf("guidance schedule is %.40q, want %s", name, param.JoinOr(ScheduleNames))
	}
	return func(p model.Progress) float64 { return w(s, p) }, nil
}

// shareBefore returns the fraction of steps before this one.
func shareBefore(p model.Progress) float64 { return float64(p.N-1) / float64(max(p.Steps, 1)) }

// Guided is a model with guidance. A batch's Steps have the step of each sequence; without them
// each is at step 1 of 1. It owns its working memory: one pass at a time.
type Guided struct {
	network model.Denoiser
	spec    model.Spec
	scale   func(sequence int, p model.Progress) (w float64, guided bool)

	// both is the batch of the current pass: its sequences, and behind them their other passes.
	both model.Batch

	// otherPass is the index in both of each sequence's other pass, -1 for none; [sequences]. w are
	// the scales, [sequences].
	otherPass []int32
	w         []float64

	// Memory for the rows of a partial pass, for ReadRows, Lengths and Places of both.
	rows     []int32
	readRows []int32
	lengths  []int
	places   []int

	// headMix and rowMix mix what the two passes give, by the output head or without one.
	headMix headMixer
	rowMix  rowMixer
}

// New returns a model with guidance; it is a model.Refiner if the given model is one.
func New(network model.Denoiser, scale Scale) model.Denoiser {
	return NewPerSequence(network, func(_ int, p model.Progress) (float64, bool) {
		return scale(p), true
	})
}

// NewPerSequence is New with a scale, or none, for each sequence of the batch. A sequence without
// guidance is computed once. So is one at a step whose scale is 0, or -1 (the other pass alone),
// unless later steps need the keys and values of both passes (model.Batch.CacheReused).
func NewPerSequence(network model.Denoiser,
	scale func(sequence int, p model.Progress) (w float64, guided bool)) model.Denoiser {
	g := &Guided{network: network, spec: network.Spec(), scale: scale}
	if r, ok := network.(model.Refiner); ok {
		return &Refiner{Guided: g, network: r}
	}
	return g
}

// Spec implements model.Denoiser.
func (g *Guided) Spec() model.Spec { return g.spec }

// Locker implements model.Locker; it returns the network's lock.
func (g *Guided) Locker() sync.Locker { return model.LockOf(g.network) }

// MaxSequences implements model.Sized: each sequence may take two passes.
func (g *Guided) MaxSequences(length int, cached bool) int {
	s, ok := g.network.(model.Sized)
	if !ok {
		return 0
	}
	n := s.MaxSequences(length, cached)
	if n > 0 {
		n = max(n/2, 1)
	}
	return n
}

// Forward implements model.Denoiser.
func (g *Guided) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	if err := g.setBoth(b); err != nil {
		return nil, err
	}
	m, err := g.network.Forward(ctx, &g.both)
	if err != nil {
		return nil, err
	}
	return g.mixPasses(m, b)
}

// Refiner is a Guided with partial passes. In the cache a sequence's other pass has a place after
// those of all sequences.
type Refiner struct {
	*Guided
	network model.Refiner
}

// NewCache implements model.Refiner.
func (r *Refiner) NewCache(batch, length int) *kvcache.Cache {
	return r.network.NewCache(2*batch, length)
}

// Refine implements model.Refiner.
func (r *Refiner) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals,
	error) {
	if err := r.setBoth(b); err != nil {
		return nil, err
	}
	r.rows = r.appendBoth(r.rows[:0], rows, b.Length)
	m, err := r.network.Refine(ctx, &r.both, r.rows)
	if err != nil {
		return nil, err
	}
	return r.mixPasses(m, b)
}

// otherCondition returns the condition of the other pass.
func (g *Guided) otherCondition(c *model.Condition) (*model.Condition, error) {
	switch {
	case c.Unconditional != nil:
		return c.Unconditional, nil
	case g.spec.Prompt: // such a network has no pass without a prompt, unlike one without a class
		return nil, fmt.Errorf("there is no other prompt, want the empty one for guidance")
	}
	return nil, nil
}

// setBoth sets g.both to the batch followed by the other pass of each guided sequence.
func (g *Guided) setBoth(b *model.Batch) error {
	if err := b.Check(g.spec); err != nil {
		return err
	}
	d := &g.both
	*d = model.Batch{
		Size:        b.Size,
		Length:      b.Length,
		Tokens:      append(d.Tokens[:0], b.Tokens...),
		Cache:       b.Cache,
		CacheReused: b.CacheReused,
		Conditions:  d.Conditions[:0],
		Places:      g.places[:0],
		Lengths:     g.lengths[:0],
		Time:        append(d.Time[:0], b.Time...),
		Kept:        slices.Clone(b.Kept),
		Shadows:     slices.Clone(b.Shadows),
		LastOpened:  append(d.LastOpened[:0], b.LastOpened...),
	}
	for i := range b.Size {
		d.Conditions = append(d.Conditions, b.Condition(i))
		d.Places = append(d.Places, b.Place(i))
		d.Lengths = append(d.Lengths, b.UsedLength(i))
	}

	g.otherPass = g.otherPass[:0]
	g.w = g.w[:0]
	for i := range b.Size {
		index, w, err := g.addOtherPass(b, i)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", i, err)
		}
		g.otherPass = append(g.otherPass, index)
		g.w = append(g.w, w)
	}

	// Places and Lengths are appended to above, so their memory is kept even where the network must
	// not see them.
	g.lengths = d.Lengths
	g.places = d.Places
	if b.Lengths == nil {
		d.Lengths = nil
	}
	if b.LastOpened == nil {
		d.LastOpened = nil
	}
	if b.Cache == nil {
		d.Places = nil
	}
	if b.ReadRows != nil {
		g.readRows = g.appendBoth(g.readRows[:0], b.ReadRows, b.Length)
		d.ReadRows = g.readRows
	}
	return nil
}

// addOtherPass adds the other pass of sequence i to g.both and returns its index there and the
// scale; -1 and 0 if there is no other pass.
func (g *Guided) addOtherPass(b *model.Batch, i int) (index int32, w float64, err error) {
	progress := model.Progress{N: 1, Steps: 1}
	if b.Steps != nil {
		progress = b.Steps[i]
	}
	c := b.Condition(i)
	w, guided := g.scale(i, progress)
	if !guided || !g.canGuide(c) || w == 0 && !b.CacheReused {
		return -1, 0, nil
	}
	other, err := g.otherCondition(c)
	if err != nil {
		return -1, 0, err
	}
	if w == -1 && !b.CacheReused { // only the other pass is needed
		g.replaceCondition(i, c, other)
		return -1, 0, nil
	}

	d := &g.both
	index = int32(d.Size)
	d.Tokens = append(d.Tokens, b.Tokens[i*b.Length:(i+1)*b.Length]...)
	d.Conditions = append(d.Conditions, other)
	g.replaceCondition(d.Size, c, other)
	d.Lengths = append(d.Lengths, b.UsedLength(i))
	if b.Kept != nil {
		d.Kept = append(d.Kept, b.Kept[i])
	}
	if b.Shadows != nil {
		d.Shadows = append(d.Shadows, b.Shadows[i])
	}
	if len(b.Time) > 0 {
		d.Time = append(d.Time, b.Time[i])
	}
	if b.LastOpened != nil {
		d.LastOpened = append(d.LastOpened, b.LastOpened[i])
	}
	place := 0
	if b.Cache != nil { // Refiner.NewCache made it with two places for each sequence
		place = b.Cache.Batch/2 + b.Place(i)
	}
	d.Places = append(d.Places, place)
	d.Size++
	return index, w, nil
}

// canGuide reports whether c has something that the other pass can leave out.
func (g *Guided) canGuide(c *model.Condition) bool {
	if c == nil {
		return false
	}
	hasClass := g.spec.Classes > 0 && c.Class != model.NoClass
	return hasClass || c.Prompt != nil || len(c.KnownPositions) > 0
}

// replaceCondition gives sequence i of g.both the condition other, and masks the KnownPositions of
// c: they are a part of the condition that stands in the sequence itself.
func (g *Guided) replaceCondition(i int, c, other *model.Condition) {
	g.both.Conditions[i] = other
	for _, p := range c.KnownPositions {
		g.both.Tokens[i*g.both.Length+int(p)] = g.spec.Mask
	}
}

// appendBoth appends rows to list, followed by the same rows of the other passes.
func (g *Guided) appendBoth(list, rows []int32, length int) []int32 {
	n := int32(length)
	list = append(list, rows...)
	for _, r := range rows {
		if other := g.otherPass[r/n]; other >= 0 {
			list = append(list, other*n+r%n)
		}
	}
	return list
}

// mixPasses returns the marginals mixed from the two passes.
func (g *Guided) mixPasses(m model.Marginals, b *model.Batch) (model.Marginals, error) {
	if !slices.ContainsFunc(g.otherPass, func(index int32) bool { return index >= 0 }) {
		return m, nil
	}
	if h, ok := m.(interface{ AsHeadMarginals() *model.HeadMarginals }); ok {
		g.headMix.prepare(g, h.AsHeadMarginals(), b.Length)
		return &g.headMix.marginals, nil
	}
	g.rowMix = rowMixer{g: g, network: m, length: int32(b.Length), outcomes: g.spec.Outcomes}
	return &g.rowMix, nil
}
