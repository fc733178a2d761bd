// Package loops compares whole runs of conditional models with the reference's, token for token.
package loops

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/model"
	"unmask/testkit/parity"
)

// Case is a loop of a pack.
type Case struct {
	Recipe string // as generate.ParseRecipe reads it, steps and guidance included
	Start  string // case with the tokens at the start; "" for all masked
	Want   string // case with the tokens at the end
}

// Run requires that the sequences of a run end with the pack's tokens, all in one batch and, where
// something is known from the start, each alone.
func Run(t *testing.T, p *parity.Pack, m model.Denoiser, conditions parity.Conditions, c Case) {
	t.Helper()
	want, shape := p.Ints(c.Want)
	size, n := shape[0], shape[1]
	if c.Start == "" {
		Tokens(t, p, m, conditions, want, size, c.Recipe)
		return
	}
	list := requests(t, p, conditions, size, c.Recipe)
	start, _ := p.Ints(c.Start)
	for i := range list {
		list[i].Known = start[i*n : (i+1)*n]
		require.Equal(t, want[i*n:(i+1)*n], run(t, m, list[i:i+1]))
	}
}

// Tokens requires that size sequences of a run under a pack's conditions end with the tokens want
// [size, length].
func Tokens(t *testing.T, p *parity.Pack, m model.Denoiser, conditions parity.Conditions,
	want []int32, size int, recipe string) {
	t.Helper()
	require.Equal(t, want, run(t, m, requests(t, p, conditions, size, recipe)))
}

// requests are those of a run with a recipe.
func requests(t *testing.T, p *parity.Pack, conditions parity.Conditions, size int,
	text string) (list []generate.Request) {
	t.Helper()
	recipe, err := generate.ParseRecipe(text)
	require.NoError(t, err)
	for i := range size {
		with, without := conditions(p, i)
		both := *with
		both.Unconditional = without
		list = append(list, generate.Request{Recipe: recipe, Index: uint32(i), Condition: &both})
	}
	return list
}

// run returns the tokens of all sequences, one after the other.
func run(t *testing.T, m model.Denoiser, list []generate.Request) []int32 {
	t.Helper()
	o := generate.PoolOptions{Guided: true, WholeBatches: true}
	got := make([][]int32, len(list))
	for step, err := range generate.Each(context.Background(), m, o, slices.Values(list)) {
		require.NoError(t, err)
		for _, q := range step.Sequences {
			got[q.Number] = slices.Clone(q.Tokens)
		}
	}
	return slices.Concat(got...)
}
