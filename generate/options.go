// Package generate is the denoising loop: a model's marginals, a sampler's choice, tokens
// drawn, step after step, for batches of sequences.
package generate

import (
	"cmp"
	"fmt"
	"math"

	"unmask/constrain"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Options say what Run generates. The zero value generates one sequence with the paper's best
// sampler.
type Options struct {
	// These are the fields of the recipe; see Recipe and With.
	Sampler  samplers.Sampler  // nil means hybrid for text, moment for images
	Schedule samplers.Schedule // nil means uniform for text, cosine for images
	// N; 0 means 32 for text, 16 for images, or the number of positions if that is less
	Steps int
	// intermediate stages of a step, by partial passes; the paper uses 1; 0 and NoCache mean none,
	// except that unmask.Generate takes the model's own for 0
	Cache     int
	Reuse     Reuse        // keys and values of earlier steps
	BlockSize int          // for Blocks, positions of a block; 0: the model's own
	Refresh   int          // for Delayed: a full pass every Refresh steps; 0 means 8
	Filter    model.Filter // changes the model's marginals before any sampler sees them
	Greedy    bool         // temperature 0; see Recipe
	Guidance  Guidance     // for models that take a condition

	N, First int // generates sequences First..First+N-1 of the seed; N 0 means 1
	Batch    int // sequences at once; 0 means about 4096 positions, on a GPU what fits into its memory
	Seed     uint64

	Length int     // positions; 0 means the model's, or that of Tokens
	Tokens []int32 // [Length] what is known from the start, Spec.Mask elsewhere; nil: nothing

	// Ends are tokens that end a text. Once everything before one of them is open the sequence is
	// done: positions that are still masked are filled with that token without a pass. Samplers
	// that mask or replace open tokens take all their steps.
	Ends []int32

	// Language, when not nil, is what a part of each sequence spells; see package constrain. Its end
	// tokens must be Ends.
	Language *constrain.Language

	Condition *model.Condition // of all sequences; nil means none
	// of each sequence, replaces Condition; nil means all have Condition
	Conditions func(sequence int) *model.Condition

	// Edit, when not nil, is called after each step of each sequence, see Request.
	Edit func(*Sequence) error

	// Adjust, when not nil, may change the logits (outcomes only) at a position of a sequence
	// before each draw, for example to forbid the end of the text before a minimum length. It may
	// be called concurrently. It runs after Filter.Adjust.
	Adjust func(sequence, position int, logits []float32)
}

// NoCache in Options.Cache means none, also where 0 means a model's own.
const NoCache = -1

// batchRows is the approximate number of positions in a batch of default size.
const batchRows = 4096

// Check fills in defaults and returns a one-line error for whatever Run refuses.
func (o Options) Check(d model.Denoiser) (Options, error) {
	spec := d.Spec()
	o.defaultLength(spec)
	if err := o.checkTokens(spec); err != nil {
		return o, err
	}
	if err := checkEnds(o.Ends, spec); err != nil {
		return o, err
	}
	o.N = cmp.Or(o.N, 1)
	if o.Batch == 0 {
		o.Batch = roomFor(d, o.Length, o.Cache > 0 || o.Reuse != NoReuse)
		if o.Guidance.Scale != 0 { // every sequence is computed twice
			o.Batch = max(1, o.Batch/2)
		}
	}
	switch {
	case o.N < 0:
		return o, refuse("n", param.OutOfRange, "n is %d, want 1 or more", o.N)
	case o.Batch < 0:
		return o, refuse("batch", param.OutOfRange, "batch is %d, want 1 or more", o.Batch)
	case o.First < 0 || uint64(o.First)+uint64(o.N) > math.MaxUint32:
		return o, refuse("n", param.OutOfRange, "sequences are %d to %d, want 0 to %d", o.First,
			o.First+o.N-1, uint32(math.MaxUint32))
	}
	o.Batch = min(o.Batch, o.N)
	r, err := o.Recipe().Fit(d, o.free(spec))
	if err == nil {
		if err = r.guides(spec, o.Tokens); err != nil {
			err = fmt.Errorf("generate: %w", err)
		}
	}
	return o.With(r), err
}

// defaultLength sets the length if it is 0.
func (o *Options) defaultLength(spec model.Spec) {
	if o.Length == 0 {
		o.Length = spec.Length()
		if o.Tokens != nil {
			o.Length = len(o.Tokens)
		}
	}
}

// free returns the number of masked positions at the start.
func (o *Options) free(spec model.Spec) int {
	if o.Tokens == nil {
		return o.Length
	}
	return spec.Masked(o.Tokens)
}

// condition returns the condition of a sequence.
func (o *Options) condition(sequence int) *model.Condition {
	if o.Conditions != nil {
		return o.Conditions(sequence)
	}
	return o.Condition
}

func (o *Options) checkTokens(spec model.Spec) error {
	switch longest := spec.Length(); {
	case o.Tokens != nil && len(o.Tokens) == 0:
		return refuse("tokens", param.OutOfRange, "tokens are 0, want 1 to %d, or nil for none known",
			longest)
	case o.Length < 0 || o.Length > longest:
		return refuse("length", param.OutOfRange, "length is %d, want 1 to %d", o.Length, longest)
	case spec.Fixed && o.Length != longest:
		return refuse("length", param.Unsupported, "length is %d, want %d: this model has no other",
			o.Length, longest)
	case o.Tokens != nil && len(o.Tokens) != o.Length:
		return refuse("tokens", param.OutOfRange, "tokens are %d, want %d, the length", len(o.Tokens),
			o.Length)
	}
	return checkRange(o.Tokens, spec)
}

func checkEnds(ends []int32, spec model.Spec) error {
	for _, t := range ends {
		if t < 0 || int(t) >= spec.Outcomes {
			return refuse("end", param.NoSuchToken, "end is %d, want 0 to %d", t, spec.Outcomes-1)
		}
	}
	return nil
}

func checkRange(tokens []int32, spec model.Spec) error {
	for i, t := range tokens {
		if t != spec.Mask && (t < 0 || int(t) >= spec.Outcomes) {
			return refuse("tokens", param.NoSuchToken,
				"token is %d at position %d, want 0 to %d or the mask %d", t, i, spec.Outcomes-1, spec.Mask)
		}
	}
	return nil
}

// refuse returns a refusal in the words of this package.
func refuse(name string, reason param.Reason, format string, args ...any) error {
	return fmt.Errorf("generate: %w", param.Refuse(name, reason, format, args...))
}
