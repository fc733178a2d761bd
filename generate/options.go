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

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Options say what Run generates. The zero value generates one sequence with the default sampler of
// the model's kind, see Recipe.WithDefaults.
type Options struct {
	// Request describes the sequences; its Index is the first one's.
	Request

	// N is the number of sequences; 0 means 1.
	N int

	// Batch is the number of sequences at once; 0 means about 4096 positions, on a GPU what fits into
	// its memory.
	Batch int
}

// batchRows is the approximate number of positions in a batch of default size.
const batchRows = 4096

// Check fills in defaults and returns a one-line error for whatever Run refuses.
func (o Options) Check(d model.Denoiser) (_ Options, err error) {
	o.N = cmp.Or(o.N, 1)
	last := uint64(o.Index) + uint64(o.N) - 1
	switch {
	case o.N < 0:
		return o, refuse("n", param.OutOfRange, "n is %d, want 1 or more", o.N)
	case o.Batch < 0:
		return o, refuse("batch", param.OutOfRange, "batch is %d, want 1 or more", o.Batch)
	case last > math.MaxUint32:
		return o, refuse("n", param.OutOfRange, "sequences are %d to %d, want 0 to %d", o.Index, last,
			uint32(math.MaxUint32))
	}
	if o.Request, err = o.Request.Check(d); err != nil {
		return o, err
	}
	if o.Batch == 0 {
		o.Batch = defaultSize(d, o.Length, o.Cache > 0 || o.Reuse != NoReuse)
		if o.Guidance.Scale != 0 { // every sequence is computed twice
			o.Batch = max(1, o.Batch/2)
		}
	}
	o.Batch = min(o.Batch, o.N)
	return o, nil
}

// Identity returns what decides the bytes of a complete request's sequence, by name, besides its
// Index, Adjust and Edit: the seed, the length, a hash of what is known, and the recipe's
// parameters in canonical text. Files keep it, so names and texts must not change.
func (r Request) Identity() map[string]string {
	knownHash := sha256.New()
	for _, t := range r.Known {
		fmt.Fprintln(knownHash, t)
	}
	identity := map[string]string{
		"seed":   strconv.FormatUint(r.Seed, 10),
		"length": strconv.Itoa(r.Length),
		"known":  hex.EncodeToString(knownHash.Sum(nil)[:8]),
	}

	// Runs of versions before 0.2 had other blocks; those of semi-ar go on with even=1.
	semiAR, ok := r.Sampler.(samplers.SemiAR)
	if ok && semiAR.Even == 1 {
		semiAR.Even = 0
		r.Sampler = semiAR
	} else if ok || r.Reuse == Blocks {
		identity["blocks"] = "0.2"
	}
	r.addRevisions(identity)
	if r.MaxLength > r.Length {
		identity["max-length"] = strconv.Itoa(r.MaxLength)
	}
	for _, p := range Params() {
		if text := r.Get(p.Name); text != "" {
			identity[p.Name] = text
		}
	}
	return identity
}

// addRevisions adds what names each change of the loop since 0.1.0 that gives r other tokens. A run
// that 0.1.0 began lacks these names, and so does not go on with other bytes; runs.Changes says
// what each of them means. A request whose bytes are still those of 0.1.0 gets none.
func (r Request) addRevisions(identity map[string]string) {
	const revision = "0.2"
	if r.Language != nil {
		identity["grammar"] = revision
	}
	if samplers.Is[samplers.Resizer](r.Sampler) && r.Guidance.Scale != 0 {
		identity["guided-hole"] = revision
	}
	if samplers.CountsChanged(r.Schedule, r.Steps) {
		identity["counts"] = revision
	}
}

// checkTokens returns an error for a length or known tokens that the model cannot have.
func (r *Request) checkTokens(spec model.Spec) error {
	longest := spec.Length()
	switch {
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
	return CheckTokens("tokens", r.Known, spec)
}

// checkEndTokens returns an error for an end token that is not one of the model's, or that is its
// mask: a text would end at the first position that is not open yet.
func checkEndTokens(tokens []int32, spec model.Spec) error {
	for _, t := range tokens {
		if t == spec.Mask {
			return refuse("end", param.NoSuchToken, "end is %d, the mask, want a token", t)
		}
		if t < 0 || int(t) >= spec.Outcomes {
			return refuse("end", param.NoSuchToken, "end is %d, want 0 to %d", t, spec.Outcomes-1)
		}
	}
	return nil
}

// CheckTokens returns an error about the field `name` for a token that is neither the model's nor
// the mask.
func CheckTokens(name string, tokens []int32, spec model.Spec) error {
	for i, t := range tokens {
		if t != spec.Mask && (t < 0 || int(t) >= spec.Outcomes) {
			return refuse(name, param.NoSuchToken,
				"token is %d at position %d, want 0 to %d or the mask %d", t, i, spec.Outcomes-1,
				spec.Mask)
		}
	}
	return nil
}

// refuse returns a param.Error with a sentence, after the name of this package.
func refuse(name string, reason param.Reason, format string, args ...any) error {
	return fmt.Errorf("generate: %w", param.Refuse(name, reason, format, args...))
}
