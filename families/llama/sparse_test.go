package llama_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/testkit/parity"
)

var decoderPacks = []string{"decoders-1", "decoders-2", "decoders-3"}

// Passes leave positions out, and have shadows, alone and beside other sequences.
func TestSparsePasses(t *testing.T) {
	parity.RunEach(t, decoderPacks, func(t *testing.T, p *parity.Pack, m model.Refiner,
		tolerance float64) {
		tokens, _ := p.Ints("tokens")
		places, _ := p.Ints("places")
		mask, n, vocab := m.Spec().Mask, len(tokens), m.Spec().Outcomes
		compare := func(b *model.Batch, first int, rows []int32, name string) {
			want, _ := p.Floats(name)
			got := make([]float32, len(want))
			at := slices.Clone(rows)
			for i := range at {
				at[i] += int32(first * b.Length)
			}
			marginals, err := m.Forward(t.Context(), b)
			require.NoError(t, err)
			require.NoError(t, marginals.Visit(at, func(i int, l []float32) {
				require.Less(t, l[mask], float32(-1e30), "the mask is forbidden")
				copy(got[i*vocab:][:vocab], l)
				got[i*vocab+int(mask)], want[i*vocab+int(mask)] = 0, 0
			}))
			parity.RequireClose(t, want, got, tolerance)
		}
		kept := &model.Batch{Size: 1, Length: n, Tokens: tokens, Kept: [][]int32{places}}
		compare(kept, 0, places, "places_logits")
		both := &model.Batch{Size: 2, Length: n, Tokens: append(slices.Clone(tokens), tokens...),
			Kept: [][]int32{nil, places}}
		compare(both, 0, parity.Count(n), "logits")
		compare(both, 1, places, "places_logits")

		of := make([]int32, 8)
		for i := range of {
			of[i] = int32(16 + i)
		}
		with := append(slices.Clone(tokens), slices.Repeat([]int32{mask}, len(of))...)
		shadows := &model.Batch{Size: 1, Length: len(with), Tokens: with, Shadows: [][]int32{of}}
		compare(shadows, 0, parity.Count(len(with)), "wino_logits")
		shadows = &model.Batch{Size: 2, Length: len(with), Tokens: append(slices.Clone(with), with...),
			Lengths: []int{n, len(with)}, Shadows: [][]int32{nil, of}}
		compare(shadows, 0, parity.Count(n), "logits")
		compare(shadows, 1, parity.Count(len(with)), "wino_logits")
		shadows.ReadRows = []int32{3} // of the first sequence, and all of the second
		for i := range with {
			shadows.ReadRows = append(shadows.ReadRows, int32(len(with)+i))
		}
		compare(shadows, 1, parity.Count(len(with)), "wino_logits")
	})
}
