package exact_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
)

// A judge's scores follow the chain rule: they sum to the whole sequence's. The sums' mean over
// samples of the truth is the entropy.
func TestJudge(t *testing.T) {
	for _, text := range []string{"product:length=6,tokens=3", "markov:length=9,tokens=4",
		"hmm:length=7,tokens=3", "ising:height=2,width=4"} {
		m, err := exact.Parse(text)
		require.NoError(t, err)
		j := exact.Judge{Model: m}
		require.Equal(t, m.Length(), j.Context())
		const n = 2000
		var samples [][]int32
		for i := range uint32(n) {
			samples = append(samples, m.Sample(5, i))
		}
		nll, err := j.Score(t.Context(), samples)
		require.NoError(t, err)
		sum, squares := 0.0, 0.0
		for i, x := range samples {
			require.Len(t, nll[i], m.Length())
			whole := 0.0
			for _, v := range nll[i] {
				whole += v
			}
			require.InDelta(t, -m.LogProb(x), whole, 1e-9)
			sum, squares = sum+whole, squares+whole*whole
		}
		mean := sum / n
		entropy, deviation := m.Entropy()
		require.InDelta(t, entropy, mean, 4*math.Hypot(deviation, math.Sqrt((squares/n-mean*mean)/n)),
			text)

		short, err := j.Score(t.Context(), [][]int32{samples[0][:3]})
		require.NoError(t, err)
		require.InDeltaSlice(t, nll[0][:3], short[0], 1e-12)
		_, err = j.Score(t.Context(), [][]int32{{0, int32(m.Tokens())}})
		require.ErrorContains(t, err, "at position 1 of sequence 0, want 0 to")
		_, err = j.Score(t.Context(), [][]int32{make([]int32, m.Length()+1)})
		require.ErrorContains(t, err, "want at most")
	}
}
