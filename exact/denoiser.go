package exact

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unmask/kvcache"
	"unmask/model"
)

// Denoiser gives a Model's exact conditionals as marginals. Partial passes are exact too.
type Denoiser struct {
	model.Shared
	*Model // for sequences without a class

	classes []*Model
	works   []*work // one for each class, then one for no class
	dense   model.Dense
	p       []float64
}

// NewDenoiser returns a Denoiser with its own working memory.
func NewDenoiser(m *Model) *Denoiser { return &Denoiser{Model: m, works: []*work{m.newWork()}} }

// NewConditional returns a Denoiser with a model for each class, and the model `none` for sequences
// without a class. All have one shape and number of tokens.
func NewConditional(none *Model, classes ...*Model) (*Denoiser, error) {
	d := NewDenoiser(none)
	for i, c := range classes {
		if !slices.Equal(c.shape, none.shape) || c.tokens != none.tokens {
			return nil, fmt.Errorf("oracle: class %d is %v of %d tokens, want %v of %d", i, c.shape,
				c.tokens, none.shape, none.tokens)
		}
		d.works = slices.Insert(d.works, i, c.newWork())
	}
	d.classes = classes
	return d, nil
}

// Spec implements model.Denoiser. The mask is the token after the last outcome.
func (d *Denoiser) Spec() model.Spec {
	return model.Spec{Shape: d.shape, Outcomes: d.tokens, Mask: int32(d.tokens), Fixed: true,
		Classes: len(d.classes)}
}

// Forward computes the conditionals of the rows that are read. It returns an error if the known
// tokens cannot occur together.
func (d *Denoiser) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	return d.compute(ctx, b, b.ReadRows)
}

// compute computes the conditionals of rows, ascending; nil: of all.
func (d *Denoiser) compute(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals,
	error) {
	if err := b.Check(d.Spec()); err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	n := d.Length()
	d.p = slices.Grow(d.p[:0], n*d.tokens)[:n*d.tokens]
	all := b.Size * n * d.tokens
	d.dense.Columns, d.dense.Logits = d.tokens, slices.Grow(d.dense.Logits[:0], all)[:all]
	for s := range b.Size {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, class := d.Model, len(d.classes)
		if c := b.Condition(s); c != nil && c.Class != model.NoClass && len(d.classes) > 0 {
			m, class = d.classes[c.Class], int(c.Class)
		}
		logP := m.conditionals(d.p, b.Tokens[s*n:(s+1)*n], d.works[class])
		if math.IsInf(logP, -1) || math.IsNaN(logP) {
			return nil, fmt.Errorf("oracle: sequence %d of the batch has probability 0 in %s", s, m.name)
		}
		logits, p := d.dense.Logits[s*n*d.tokens:(s+1)*n*d.tokens], d.p
		if rows == nil {
			logs(logits, p)
			continue
		}
		for ; len(rows) > 0 && int(rows[0]) < (s+1)*n; rows = rows[1:] {
			at := (int(rows[0]) - s*n) * d.tokens
			logs(logits[at:at+d.tokens], p[at:at+d.tokens])
		}
	}
	return &d.dense, nil
}

// NewCache returns an empty cache: there are no keys and values.
func (d *Denoiser) NewCache(batch, length int) *kvcache.Cache {
	return &kvcache.Cache{Batch: batch, Length: length}
}

// Refine implements model.Refiner.
func (d *Denoiser) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals,
	error) {
	return d.compute(ctx, b, rows)
}

// logs writes the logarithms of p.
func logs(to []float32, p []float64) {
	for i, v := range p {
		to[i] = float32(math.Log(v))
	}
}
