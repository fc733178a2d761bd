package parity

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// Batch returns a batch of tokens [size, length].
func Batch(tokens []int32, shape []int) *model.Batch {
	return &model.Batch{Size: shape[0], Length: shape[1], Tokens: tokens}
}

// tokens returns the cases prefix+"tokens", or "tokens" if there are none.
func (p *Pack) tokens(prefix string) ([]int32, []int) {
	if p.Has(prefix + "tokens") {
		return p.Ints(prefix + "tokens")
	}
	return p.Ints("tokens")
}

// CheckFullPass compares a full pass over the cases prefix+"tokens" with prefix+"logits".
func CheckFullPass(t *testing.T, p *Pack, m model.Refiner, prefix string, tolerance float64) {
	tokens, shape := p.tokens(prefix)
	want, wantShape := p.Floats(prefix + "logits")
	got, err := m.Forward(context.Background(), Batch(tokens, shape))
	require.NoError(t, err)
	RequireClose(t, want, Logits(t, got, Count(len(tokens)), wantShape[2]), tolerance)
}

// CheckPartialPass compares a partial pass at partial_rows, after a full one over the first
// sequence, with partial_logits.
func CheckPartialPass(t *testing.T, p *Pack, m model.Refiner, tolerance float64) {
	tokens, shape := p.Ints("tokens")
	rows, _ := p.Ints("partial_rows")
	partialTokens, _ := p.Ints("partial_tokens")
	want, wantShape := p.Floats("partial_logits")
	b := Batch(tokens[:shape[1]], []int{1, shape[1]})
	b.Cache = m.NewCache(1, shape[1])
	_, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	b.Tokens = partialTokens
	got, err := m.Refine(context.Background(), b, rows)
	require.NoError(t, err)
	RequireClose(t, want, Logits(t, got, rows, wantShape[2]), tolerance)
}

// CheckBatchInvariance checks that a sequence in a batch gives the bytes that it gives alone, in
// full and partial passes, on every device. refined are the positions of each sequence that a
// partial pass recomputes.
func CheckBatchInvariance(t *testing.T, pack string, refined []int) {
	RunEach(t, []string{pack}, func(t *testing.T, p *Pack, m model.Refiner, _ float64) {
		tokens, shape := p.Ints("tokens")
		_, wantShape := p.Floats("logits")
		n := shape[1]
		columns := wantShape[2]
		for s, want := range runPasses(t, m, tokens, shape[0], refined, columns) {
			alone := runPasses(t, m, tokens[s*n:(s+1)*n], 1, refined, columns)
			require.Equal(t, want, alone[0], "sequence %d", s)
		}
	})
}
