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
	recipe, err := generate.ParseRecipe(c.Recipe)
	require.NoError(t, err)
	o := generate.Options{N: size, Conditions: func(i int) *model.Condition {
		with, without := conditions(p, i)
		both := *with
		both.Without = without
		return &both
	}}.With(recipe)
	run := func(o generate.Options, want []int32) {
		got := map[int][]int32{}
		for q, err := range generate.Samples(context.Background(), m, o) {
			require.NoError(t, err)
			got[q.Index] = append([]int32(nil), q.Tokens...)
		}
		var all []int32
		for i := range o.N {
			all = append(all, got[o.First+i]...)
		}
		require.Equal(t, want, all)
	}
	if c.Start == "" {
		run(o, want)
		return
	}
	start, _ := p.Ints(c.Start)
	for i := range size {
		o.First, o.N, o.Tokens = i, 1, start[i*n:(i+1)*n]
		run(o, want[i*n:(i+1)*n])
	}
}
