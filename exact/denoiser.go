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

	// classes are the models of sequences with a class.
	classes []*Model

	// works are the memory of each class's model, then that of the model for no class.
	works []*work

	dense model.Dense

	// p are the conditionals of one sequence, [length, tokens], and isAsked says which of its
	// positions are wanted, [length].
	p       []float64
	isAsked []bool
}

// NewDenoiser returns a Denoiser with its own working memory.
func NewDenoiser(m *Model) *Denoiser { return &Denoiser{Model: m, works: []*work{m.newWork()}} }

// NewConditional returns a Denoiser with a model for each class, and the unconditional one for
// sequences without a class. All have one shape and number of tokens, or the error says which has
// not.
func NewConditional(unconditional *Model, classes ...*Model) (*Denoiser, error) {
	d := NewDenoiser(unconditional)
	for i, c := range classes {
		if !slices.Equal(c.shape, unconditional.shape) || c.tokens != unconditional.tokens {
			return nil, fmt.Errorf("oracle: class %d is %v of %d tokens, want %v of %d", i, c.shape,
				c.tokens, unconditional.shape, unconditional.tokens)
		}
		d.works = slices.Insert(d.works, i, c.newWork())
	}
	d.classes = classes
	return d, nil
}

// Spec implements model.Denoiser. The mask is the token after the last outcome.
func (d *Denoiser) Spec() model.Spec {
	return model.Spec{
		Shape:    d.shape,
		Outcomes: d.tokens,
		Mask:     int32(d.tokens),
		Fixed:    true,
		Classes:  len(d.classes),
	}
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
	n := d.Length() * d.tokens // of one sequence
	d.p = slices.Grow(d.p[:0], n)[:n]
	d.dense.Columns = d.tokens
	d.dense.Logits = slices.Grow(d.dense.Logits[:0], b.Size*n)[:b.Size*n]
	for i := range b.Size {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, w := d.modelOf(b.Condition(i))
		length := d.Length()
		var isAsked []bool // all, if it is nil
		if rows != nil {
			isAsked, rows = d.takeAsked(rows, i)
		}
		logP := m.conditionals(d.p, b.Tokens[i*length:(i+1)*length], w, isAsked)
		if math.IsInf(logP, -1) || math.IsNaN(logP) {
			return nil, fmt.Errorf("oracle: sequence %d of the batch has probability 0 in %s", i, m.name)
		}

		logits := d.dense.Logits[i*n : (i+1)*n]
		for position := range length {
			if isAsked == nil || isAsked[position] {
				first := position * d.tokens
				writeLogs(logits[first:first+d.tokens], d.p[first:first+d.tokens])
			}
		}
	}
	return &d.dense, nil
}

// takeAsked returns which positions of a sequence are the first of rows, and the rows behind them.
func (d *Denoiser) takeAsked(rows []int32, sequence int) (isAsked []bool, left []int32) {
	length := d.Length()
	d.isAsked = slices.Grow(d.isAsked[:0], length)[:length]
	clear(d.isAsked)
	for len(rows) > 0 && int(rows[0]) < (sequence+1)*length {
		d.isAsked[int(rows[0])-sequence*length] = true
		rows = rows[1:]
	}
	return d.isAsked, rows
}

// modelOf returns the model of a sequence with a condition, nil for none, and the model's memory.
func (d *Denoiser) modelOf(c *model.Condition) (*Model, *work) {
	if c != nil && c.Class != model.NoClass && len(d.classes) > 0 {
		return d.classes[c.Class], d.works[c.Class]
	}
	return d.Model, d.works[len(d.classes)]
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

// writeLogs writes the logarithms of p to logits.
func writeLogs(logits []float32, p []float64) {
	for i, v := range p {
		logits[i] = float32(math.Log(v))
	}
}
