package oracle

import (
	"context"
	"fmt"
	"math"

	"unmask/kvcache"
	"unmask/model"
)

// Denoiser gives a Model's exact conditionals as marginals. A partial pass gives the exact
// conditional too: there is nothing to approximate.
type Denoiser struct {
	model.Turns
	*Model

	dense model.Dense
	p     []float64
	work  *work
}

// NewDenoiser returns a Denoiser with memory of its own.
func NewDenoiser(m *Model) *Denoiser { return &Denoiser{Model: m, work: m.newWork()} }

// Spec implements model.Denoiser. The mask is the token after the last outcome.
func (d *Denoiser) Spec() model.Spec {
	return model.Spec{Shape: d.shape, Outcomes: d.tokens, Mask: int32(d.tokens), Fixed: true}
}

// Forward computes all conditionals. Tokens that the model never produces together are an
// error.
func (d *Denoiser) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	n := d.Length()
	if b.Length != n || len(b.Tokens) != b.Size*n {
		return nil, fmt.Errorf("oracle: batch of %d x %d with %d tokens, want length %d", b.Size, b.Length, len(b.Tokens), n)
	}
	d.p = sized(d.p, n*d.tokens)
	d.dense.Columns, d.dense.Logits = d.tokens, sized(d.dense.Logits, b.Size*n*d.tokens)
	for s := range b.Size {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := b.Tokens[s*n : (s+1)*n]
		for i, t := range x {
			if t < 0 || int(t) > d.tokens {
				return nil, fmt.Errorf("oracle: token %d at position %d of sequence %d, want 0 to %d", t, i, s, d.tokens)
			}
		}
		if logP := d.conditionals(d.p, x, d.work); math.IsInf(logP, -1) || math.IsNaN(logP) {
			return nil, fmt.Errorf("oracle: sequence %d of the batch has probability 0 in %s", s, d.name)
		}
		for i, p := range d.p {
			d.dense.Logits[s*n*d.tokens+i] = float32(math.Log(p))
		}
	}
	return &d.dense, nil
}

// NewCache is empty: an oracle has neither keys nor values.
func (d *Denoiser) NewCache(batch, length int) *kvcache.Cache {
	return &kvcache.Cache{Batch: batch, Length: length}
}

// Refine implements model.Refiner.
func (d *Denoiser) Refine(ctx context.Context, b *model.Batch, _ []int32) (model.Marginals, error) {
	return d.Forward(ctx, b)
}

func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
