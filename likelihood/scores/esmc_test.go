package scores

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/model"
	"unmask/testkit/parity"
)

// A protein's log-probabilities and pseudo-perplexity, one residue masked at a time, are those of
// the reference in float64, over all rows of the head, in each layout of ESM-C.
func TestScoresOfESMC(t *testing.T) {
	for _, pack := range []string{"esmc-tiny", "esmc-transformers-tiny", "esmc-pth-tiny"} {
		t.Run(pack, func(t *testing.T) {
			p := parity.OpenCases(t, pack)
			m, err := unmask.Load(t.Context(), p.Folder(), unmask.Options{Threads: 2})
			require.NoError(t, err)
			tokens, _ := p.Ints("score_tokens")
			tokens = tokens[1 : len(tokens)-1]
			want, shape := p.Floats("score_logp")
			visited := 0
			s, err := ScoreTokens(t.Context(), m, tokens, 0, Options{
				Visit: func(at int, logits []float32, sum float64) {
					visited++
					for token := range int32(24) { // others than residues may be forbidden
						if !math.IsInf(float64(logits[token]), -1) {
							require.InDelta(t, want[at*shape[1]+int(token)], float64(logits[token])-sum, 2e-4)
						}
					}
				}})
			require.NoError(t, err)
			require.Equal(t, len(tokens), visited)
			for i, token := range tokens {
				require.InDelta(t, want[i*shape[1]+int(token)], s.LogP[i], 2e-4)
			}
			perplexity, _ := p.Floats("score_pseudo_perplexity")
			require.InEpsilon(t, perplexity[0], s.Perplexity(), 1e-4)

			name := m.Text.Decode(tokens[:1]) + "1" + m.Text.Decode([]int32{22})
			mutation, err := ParseMutation(m.Text, tokens, name)
			require.NoError(t, err)
			odds, err := LogOdds(t.Context(), m, tokens, []Mutation{mutation}, false)
			require.NoError(t, err)
			require.InDelta(t, want[22]-want[tokens[0]], odds[0], 2e-4)
		})
	}
}

// A complex of several chains is refused, because its positions would have to see their own only.
func TestChainsOfESMC(t *testing.T) {
	p := parity.OpenCases(t, "esmc-tiny")
	m, err := unmask.Load(t.Context(), p.Folder(), unmask.Options{})
	require.NoError(t, err)
	_, err = m.Forward(t.Context(), &model.Batch{Size: 1, Length: 5, Tokens: []int32{0, 5, 31, 6, 2}})
	require.EqualError(t, err, "token 31 of ESM-C is |, want a protein of one chain")
}
