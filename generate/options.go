// Package generate is the denoising loop: a model's marginals, a sampler's choice, tokens
// drawn, step after step, for batches of sequences.
package generate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"unmask/constrain"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Options say what Run generates: N sequences of a recipe. The zero value generates one sequence
// with the default sampler of the model's kind, see Recipe.For.
type Options struct {
	Recipe

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

// batchRows is the approximate number of positions in a batch of default size.
const batchRows = 4096

// Check fills in defaults and returns a one-line error for whatever Run refuses.
func (o Options) Check(d model.Denoiser) (Options, error) {
	o.N = cmp.Or(o.N, 1)
	switch {
	case o.N < 0:
		return o, refuse("n", param.OutOfRange, "n is %d, want 1 or more", o.N)
	case o.Batch < 0:
		return o, refuse("batch", param.OutOfRange, "batch is %d, want 1 or more", o.Batch)
	case o.First < 0 || uint64(o.First)+uint64(o.N) > math.MaxUint32:
		return o, refuse("n", param.OutOfRange, "sequences are %d to %d, want 0 to %d", o.First,
			o.First+o.N-1, uint32(math.MaxUint32))
	}
	r, err := o.Request(o.First).Check(d)
	if err != nil {
		return o, err
	}
	o.Recipe, o.Length = r.Recipe, r.Length
	if o.Batch == 0 {
		o.Batch = roomFor(d, o.Length, o.Cache > 0 || o.Reuse != NoReuse)
		if o.Guidance.Scale != 0 { // every sequence is computed twice
			o.Batch = max(1, o.Batch/2)
		}
	}
	o.Batch = min(o.Batch, o.N)
	return o, nil
}

// Request returns the request of sequence i.
func (o Options) Request(i int) Request {
	r := Request{Recipe: o.Recipe, Seed: o.Seed, Index: uint32(i), Length: o.Length,
		Known: o.Tokens, Condition: o.Condition, Ends: o.Ends, Language: o.Language, Edit: o.Edit}
	if o.Conditions != nil {
		r.Condition = o.Conditions(i)
	}
	if o.Adjust != nil {
		r.Adjust = func(position int, logits []float32) { o.Adjust(i, position, logits) }
	}
	return r
}

// Identity returns what decides the bytes of a complete request's sequence, by name, besides its
// Index, Adjust and Edit: the seed, the length, a hash of what is known, and the recipe's
// parameters in canonical text.
func (r Request) Identity() map[string]string {
	known := sha256.New()
	for _, t := range r.Known {
		fmt.Fprintln(known, t)
	}
	s := map[string]string{"seed": strconv.FormatUint(r.Seed, 10), "length": strconv.Itoa(r.Length),
		"known": hex.EncodeToString(known.Sum(nil)[:8])}
	// Runs of versions before 0.2 had other blocks; those of semi-ar go on with even=1.
	if one, ok := r.Sampler.(samplers.SemiAR); ok && one.Even == 1 {
		one.Even = 0
		r.Sampler = one
	} else if ok || r.Reuse == Blocks {
		s["blocks"] = "0.2"
	}
	for _, p := range Params() {
		if text := r.Get(p.Name); text != "" {
			s[p.Name] = text
		}
	}
	return s
}

// checkTokens returns an error for a length or known tokens that the model cannot have.
func (r *Request) checkTokens(spec model.Spec) error {
	switch longest := spec.Length(); {
	case r.Known != nil && len(r.Known) == 0:
		return refuse("tokens", param.OutOfRange, "tokens are 0, want 1 to %d, or nil for none known",
			longest)
	case r.Length < 0 || r.Length > longest:
		return refuse("length", param.OutOfRange, "length is %d, want 1 to %d", r.Length, longest)
	case spec.Fixed && r.Length != longest:
		return refuse("length", param.Unsupported, "length is %d, want %d: this model has no other",
			r.Length, longest)
	case r.Known != nil && len(r.Known) != r.Length:
		return refuse("tokens", param.OutOfRange, "tokens are %d, want %d, the length", len(r.Known),
			r.Length)
	}
	return checkRange(r.Known, spec)
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
