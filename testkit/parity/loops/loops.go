// Package loops compares whole runs of conditional models with the reference's, token for token.
package loops

import (
	"context"
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
	o := options(t, p, conditions, c.Recipe)
	start, _ := p.Ints(c.Start)
	for i := range size {
		o.Index, o.N, o.Known = uint32(i), 1, start[i*n:(i+1)*n]
		require.Equal(t, want[i*n:(i+1)*n], run(t, m, o))
	}
}

// Tokens requires that size sequences of a run under a pack's conditions end with the tokens want
// [size, length].
func Tokens(t *testing.T, p *parity.Pack, m model.Denoiser, conditions parity.Conditions,
	want []int32, size int, recipe string) {
	t.Helper()
	o := options(t, p, conditions, recipe)
	o.N = size
	require.Equal(t, want, run(t, m, o))
}

// options are of a run with a recipe.
func options(t *testing.T, p *parity.Pack, conditions parity.Conditions,
	text string) generate.Options {
	t.Helper()
	recipe, err := generate.ParseRecipe(text)
	require.NoError(t, err)
	return generate.Options{Request: generate.Request{Recipe: recipe},
		Conditions: func(i int) *model.Condition {
			with, without := conditions(p, i)
			both := *with
			both.Without = without
			return &both
		}}
}

// run returns the tokens of all sequences, one after the other.
func run(t *testing.T, m model.Denoiser, o generate.Options) (all []int32) {
	t.Helper()
	got := map[int][]int32{}
	for q, err := range generate.Samples(context.Background(), m, o) {
		require.NoError(t, err)
		got[q.Index] = append([]int32(nil), q.Tokens...)
	}
	for i := range o.N {
		all = append(all, got[int(o.Index)+i]...)
	}
	return all
}
