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

// Case is a run that a pack has the result of.
type Case struct {
	// Recipe is as generate.ParseRecipe reads it, steps and guidance included.
	Recipe string

	// Start is the name of the pack's case with the tokens at the start, or "" if all are masked.
	Start string

	// Want is the name of the pack's case with the tokens at the end, [size, length].
	Want string
}

// Run requires that the sequences of a run end with the pack's tokens. They run in one batch, or
// one after the other where tokens are known from the start.
func Run(t *testing.T, p *parity.Pack, m model.Denoiser, conditions parity.Conditions, c Case) {
	t.Helper()
	want, shape := p.Ints(c.Want)
	size := shape[0]
	length := shape[1]
	if c.Start == "" {
		Tokens(t, p, m, conditions, want, size, c.Recipe)
		return
	}

	requests := newRequests(t, p, conditions, size, c.Recipe)
	start, _ := p.Ints(c.Start)
	for i := range requests {
		requests[i].Known = start[i*length : (i+1)*length]
		require.Equal(t, want[i*length:(i+1)*length], runRequests(t, m, requests[i:i+1]))
	}
}

// Tokens requires that size sequences of a run under a pack's conditions end with the tokens want
// [size, length].
func Tokens(t *testing.T, p *parity.Pack, m model.Denoiser, conditions parity.Conditions,
	want []int32, size int, recipe string) {
	t.Helper()
	require.Equal(t, want, runRequests(t, m, newRequests(t, p, conditions, size, recipe)))
}

// newRequests returns size requests with one recipe, each with its condition of the pack.
func newRequests(t *testing.T, p *parity.Pack, conditions parity.Conditions, size int,
	text string) (requests []generate.Request) {
	t.Helper()
	recipe, err := generate.ParseRecipe(text)
	require.NoError(t, err)
	for i := range size {
		with, without := conditions(p, i)
		both := *with
		both.Unconditional = without
		requests = append(requests,
			generate.Request{Recipe: recipe, Index: uint32(i), Condition: &both})
	}
	return requests
}

// runRequests returns the final tokens of all sequences, one after the other. References compute
// whole batches, so that is what the pool does too.
func runRequests(t *testing.T, m model.Denoiser, requests []generate.Request) []int32 {
	t.Helper()
	o := generate.PoolOptions{Guided: true, WholeBatches: true}
	tokens := make([][]int32, len(requests))
	for step, err := range generate.Each(context.Background(), m, o, slices.Values(requests)) {
		require.NoError(t, err)
		for _, q := range step.Sequences {
			tokens[q.Number] = slices.Clone(q.Tokens) // those of the last step remain
		}
	}
	return slices.Concat(tokens...)
}
