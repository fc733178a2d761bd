package constrain_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/constrain"
	"unmask/model"
)

// restAfter walks a text through the automaton and returns the tokens of the shortest rest, -1 if
// no text begins so.
func restAfter(l *constrain.Language, text []int32) int {
	state := l.Start
	for _, token := range text {
		state = l.Next(state, token)
		if state < 0 {
			return -1
		}
	}
	return int(l.MinTokens[state])
}

// The probability that a text fits is that of enumeration, and texts that go on are drawn among
// those that are not at their end and can end on the positions beyond.
func TestTextsThatGoOn(t *testing.T) {
	const tokens, length = 3, 5
	drawn := 0
	rapid.Check(t, func(t *rapid.T) {
		texts := append([]string{"(abc)+", "a{3}(bcab)*"}, expressions...)
		l := language(t, rapid.SampledFrom(texts).Draw(t, "expression"), tokens, length)
		computed := rapid.IntRange(1, length).Draw(t, "computed positions")
		dense := &model.Dense{Columns: tokens, Logits: make([]float32, length*tokens)}
		for i := range dense.Logits {
			dense.Logits[i] = float32(rapid.Float64Range(-4, 0).Draw(t, "logit"))
		}
		q := &constrain.Sequence{Language: l, Mask: tokens}
		m := constrain.Marginals{Filtered: dense, Raw: dense, Outcomes: tokens, Length: length,
			Sequence: func(int) *constrain.Sequence { return q }}
		q.BeginStep()
		q.BeginPass(slices.Repeat([]int32{tokens}, length), allRows[:computed])

		weights := probabilities(dense)
		fitting := 0.0
		whole := 0.0
		each(tokens, computed, func(text []int32) {
			weight := 1.0
			for i, v := range text {
				weight *= weights[i][v]
			}
			rest := restAfter(l, text)
			if rest >= 0 {
				whole += weight
			}
			if rest >= 0 && rest <= length-computed {
				fitting += weight
			}
		})
		fit, err := m.FitProbability(0)
		require.NoError(t, err)
		require.InDelta(t, fitting/whole, fit, 1e-6)

		beyond := rapid.IntRange(1, 4).Draw(t, "positions beyond")
		possible := map[bool]bool{}
		each(tokens, length, func(text []int32) {
			rest := restAfter(l, text)
			possible[rest > 0 && rest <= beyond] = true
		})
		require.Equal(t, possible[true], q.GoOn(beyond))
		if !possible[true] {
			return
		}
		drawn++
		d := model.Draw{Token: make([]int32, length), Uniform: make([]float64, length)}
		for i := range d.Uniform {
			d.Uniform[i] = rapid.Float64Range(0, 0.999).Draw(t, "uniform")
		}
		require.NoError(t, m.Sample(allRows[:length], &d))
		rest := restAfter(l, d.Token)
		require.Positive(t, rest)
		require.LessOrEqual(t, rest, beyond)
	})
	require.Positive(t, drawn)
}

// probabilities returns the probabilities of rows of logits, up to a factor for each row.
func probabilities(dense *model.Dense) (rows [][]float64) {
	for logits := range slices.Chunk(dense.Logits, dense.Columns) {
		var row []float64
		for _, x := range logits {
			row = append(row, math.Exp(float64(x)))
		}
		rows = append(rows, row)
	}
	return rows
}
