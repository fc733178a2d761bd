// Package generate is the denoising loop: a model's marginals, a sampler's choice, tokens
// drawn, step after step, for batches of sequences.
package generate

import (
	"cmp"
	"fmt"
	"math"

	"unmask/model"
	"unmask/samplers"
)

// Options of a run. The zero value generates one sequence with the paper's best sampler.
type Options struct {
	Sampler  samplers.Sampler  // nil means hybrid, tokens from p
	Schedule samplers.Schedule // nil means uniform for text, cosine for images, as the paper
	Steps    int               // N; 0 means 64, or one a position if there are fewer
	Cache    int               // intermediate stages a step by partial passes; 1 is the paper's, 0 none

	Reuse   Reuse // keys and values of earlier steps
	Refresh int   // for Delayed: a full pass every so many steps; 0 means 8

	N, First int // sequences First..First+N-1 of the seed's; N 0 means 1
	Batch    int // sequences at once; 0 means about 4096 positions, on a GPU what fits into its memory
	Seed     uint64

	Length int     // positions; 0 means the model's, or that of Tokens
	Tokens []int32 // [Length] what is known from the start, Spec.Mask elsewhere; nil: nothing

	// Filter changes the model's marginals before any sampler sees them.
	Filter model.Filter

	// Edit, when not nil, is called after each step and may change Tokens of the step's
	// sequences, also back to Spec.Mask. What it leaves masked after the last step stays so.
	Edit func(*Step) error

	// Adjust, when not nil, may change the logits (outcomes only) at a position of a sequence
	// before each draw, perhaps from several goroutines: to forbid the end of the text before
	// a minimum length, for example.
	Adjust func(sequence, position int, logits []float32)
}

const (
	defaultSteps = 64
	maxSteps     = 1 << 20
	batchRows    = 4096 // positions in a batch where none is asked for
)

// Check fills in defaults and refuses what cannot run, in one line.
func (o Options) Check(d model.Denoiser) (Options, error) {
	spec := d.Spec()
	if o.Sampler == nil {
		o.Sampler = samplers.ChooseThenSample{Order: samplers.Hybrid{}}
	}
	if err := samplers.Check(o.Sampler); err != nil {
		return o, err
	}
	if o.Length == 0 {
		o.Length = spec.Length()
		if o.Tokens != nil {
			o.Length = len(o.Tokens)
		}
	}
	if err := o.checkTokens(spec); err != nil {
		return o, err
	}
	if o.N == 0 {
		o.N = 1
	}
	if o.Batch == 0 {
		o.Batch = max(1, batchRows/o.Length)
		if s, ok := d.(model.Sized); ok {
			o.Batch = cmp.Or(s.Fit(o.Length, o.Cache > 0 || o.Reuse != NoReuse), o.Batch)
		}
	}
	switch {
	case o.N < 0:
		return o, fmt.Errorf("generate: %d sequences, want at least 1", o.N)
	case o.Batch < 0:
		return o, fmt.Errorf("generate: batch of %d, want at least 1", o.Batch)
	case o.First < 0 || uint64(o.First)+uint64(o.N) > math.MaxUint32:
		return o, fmt.Errorf("generate: sequences %d to %d, want 0 to %d", o.First, o.First+o.N-1, uint32(math.MaxUint32))
	}
	o.Batch = min(o.Batch, o.N)
	if err := o.Filter.Check(spec.Outcomes); err != nil {
		return o, fmt.Errorf("generate: %w", err)
	}
	if o.Schedule == nil {
		o.Schedule = samplers.Uniform
		if len(spec.Shape) == 2 {
			o.Schedule = samplers.Cosine
		}
	}
	if err := o.checkReuse(d); err != nil {
		return o, err
	}
	if o.Refresh == 0 {
		o.Refresh = defaultRefresh
	}
	return o, o.checkCache(d)
}

func (o *Options) checkTokens(spec model.Spec) error {
	switch longest := spec.Length(); {
	case o.Length < 0 || o.Length > longest:
		return fmt.Errorf("generate: length %d, want 1 to %d", o.Length, longest)
	case spec.Fixed && o.Length != longest:
		return fmt.Errorf("generate: length %d, want %d: this model has no other", o.Length, longest)
	case o.Tokens != nil && len(o.Tokens) != o.Length:
		return fmt.Errorf("generate: %d tokens for length %d, want as many", len(o.Tokens), o.Length)
	}
	return checkRange(o.Tokens, spec)
}

func checkRange(tokens []int32, spec model.Spec) error {
	for i, t := range tokens {
		if t != spec.Mask && (t < 0 || int(t) >= spec.Outcomes) {
			return fmt.Errorf("generate: token %d at position %d, want 0 to %d or the mask %d", t, i, spec.Outcomes-1, spec.Mask)
		}
	}
	return nil
}

func (o *Options) checkCache(d model.Denoiser) error {
	if o.Cache == 0 {
		return nil
	}
	if o.Cache < 0 || o.Cache > 64 {
		return fmt.Errorf("generate: cache with %d stages a step, want 0 to 64", o.Cache)
	}
	if u, ok := samplers.As[samplers.Uncached](o.Sampler); ok {
		return fmt.Errorf("generate: no cache with this sampler: %s", u.Uncached())
	}
	if _, ok := d.(model.Refiner); !ok {
		return fmt.Errorf("generate: no cache with this model: it has no partial passes")
	}
	return nil
}

// plan is how many steps a run takes for so many positions to open.
func (o *Options) plan(free int) (steps, blocks int, err error) {
	if o.Steps < 0 {
		return 0, 0, fmt.Errorf("generate: %d steps, want at least 1", o.Steps)
	}
	if free == 0 {
		return 0, 1, nil
	}
	blocks = 1
	if b, ok := samplers.As[samplers.Blocker](o.Sampler); ok {
		blocks = max(1, min(b.Blocks(free), free))
	}
	planner, plans := samplers.As[samplers.Planner](o.Sampler)
	_, remasks := samplers.As[samplers.Remasker](o.Sampler)
	if (plans || remasks) && o.Steps > maxSteps { // others are held to the positions
		return 0, 0, fmt.Errorf("generate: %d steps, want 1 to %d", o.Steps, maxSteps)
	}
	if plans {
		steps, err = planner.Plan(o.Steps, free)
		return steps, blocks, err
	}
	steps = o.Steps
	if steps == 0 {
		steps = min(max(defaultSteps, blocks), free)
	}
	switch {
	case steps > free && !remasks:
		return 0, 0, fmt.Errorf("generate: %d steps, want 1 to %d: each opens one position at least", steps, free)
	case steps < blocks:
		return 0, 0, fmt.Errorf("generate: %d steps for %d blocks, want one a block at least", steps, blocks)
	}
	return steps, blocks, nil
}
