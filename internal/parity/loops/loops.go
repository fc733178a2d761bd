// Package loops compares whole runs of conditional models with the reference's, token for token.
package loops

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/internal/parity"
	"unmask/model"
)

// Scale is how much the condition pulls at step 1..steps: logits are c + Scale*(c-u).
type Scale func(step, steps int) float64

// guided mixes the logits of two passes, with and without the conditions, of all sequences.
type guided struct {
	m             model.Denoiser
	with, without []*model.Condition
	scale         Scale
	steps, n      int
	columns       int
}

func (g *guided) Spec() model.Spec {
	s := g.m.Spec()
	s.Prompt, s.Classes = false, 0
	return s
}

func (g *guided) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	g.n++
	w := float32(g.scale(g.n, g.steps))
	rows := parity.Count(b.Size * b.Length)
	logits := func(c []*model.Condition) ([]float32, error) {
		got, err := g.m.Forward(ctx, &model.Batch{Size: b.Size, Length: b.Length, Tokens: b.Tokens, Conditions: c})
		if err != nil {
			return nil, err
		}
		out := make([]float32, len(rows)*g.columns)
		err = got.Visit(rows, func(i int, l []float32) { copy(out[i*g.columns:(i+1)*g.columns], l) })
		return out, err
	}
	c, err := logits(g.with)
	if err != nil {
		return nil, err
	}
	u, err := logits(g.without)
	if err != nil {
		return nil, err
	}
	for i := range c {
		c[i] += w * (c[i] - u[i])
	}
	return &model.Dense{Logits: c, Columns: g.columns, Outcomes: g.m.Spec().Outcomes}, nil
}

// Case is a loop of a pack.
type Case struct {
	Recipe string // as generate.ParseRecipe reads it, steps included
	Scale  Scale
	Start  string // case with the tokens at the start; "" for all masked
	Want   string // case with the tokens at the end
}

// Run requires that all sequences of a run end with the pack's tokens.
func Run(t *testing.T, p *parity.Pack, m model.Denoiser, conditions parity.Conditions, c Case) {
	t.Helper()
	want, shape := p.Ints(c.Want)
	_, columns := p.Floats("logits_cond")
	recipe, err := generate.ParseRecipe(c.Recipe)
	require.NoError(t, err)
	for i := range shape[0] { // each alone: what is known differs
		with, without := conditions(p, i)
		g := &guided{m: m, with: []*model.Condition{with}, without: []*model.Condition{without}, scale: c.Scale, steps: recipe.Steps,
			columns: columns[2]}
		o := generate.Options{}.With(recipe)
		if c.Start != "" {
			start, _ := p.Ints(c.Start)
			o.Tokens = start[i*shape[1] : (i+1)*shape[1]]
		}
		var got []int32
		for step, err := range generate.Run(context.Background(), g, o) {
			require.NoError(t, err)
			got = append(got[:0], step.Sequences[0].Tokens...)
		}
		require.Equal(t, want[i*shape[1]:(i+1)*shape[1]], got, "sequence %d", i)
	}
}

// Constant is the same scale in every step.
func Constant(s float64) Scale { return func(int, int) float64 { return s } }
