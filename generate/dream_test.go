package generate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/model"
	"unmask/testkit/parity"
)

// openedOrder returns the positions of a run's only sequence in the order in which they opened,
// those of a step in one slice.
func openedOrder(t *testing.T, d model.Denoiser, recipe string, length int) (order [][]int32) {
	r, err := generate.ParseRecipe(recipe)
	require.NoError(t, err)
	o := generate.Options{Request: generate.Request{Recipe: r, Length: length, Seed: 3}}
	for step, err := range generate.Run(t.Context(), d, o) {
		require.NoError(t, err)
		var opened []int32
		for _, one := range step.Sequences[0].Opened {
			opened = append(opened, int32(one.Position))
		}
		order = append(order, opened)
	}
	return order
}

// The order of Dream's program at its published temperature is decided by a tie: a row whose
// largest tempered probability is above top-p keeps one token, so that its entropy is 0 like that
// of every such row. Among these the leftmost opens. At temperature 0, without top-p, there are no
// ties, and the order is another one.
func TestDreamOpensLeftToRightAmongTies(t *testing.T) {
	for _, pack := range packs2026 {
		p, _, _ := loadRuns(t, pack)
		logits, shape := p.Floats("dream_logits")
		measure, _ := p.Floats("dream_confidence")
		want, _ := p.Ints("dream_order")
		cold, _ := p.Ints("dream_order_cold")
		rows, tokens := shape[0], shape[1]
		d := &fixedMarginals{row: logits, spec: model.Spec{Shape: []int{rows}, Outcomes: tokens,
			Mask: int32(tokens)}}

		tied := 0
		for _, v := range measure {
			if v == measure[want[0]] {
				tied++
			}
		}
		require.Greater(t, tied, 3, "rows that tie")
		require.True(t, slices.IsSorted(want[:tied]))
		require.False(t, slices.IsSorted(cold[:tied]))

		const rest = " schedule=dream steps=1"
		published := openedOrder(t, d, "entropy temperature=0.1 top-p=0.9"+rest, rows)
		require.Equal(t, [][]int32{want}, published, pack)
		require.Equal(t, [][]int32{cold}, openedOrder(t, d, "greedy(entropy)"+rest, rows), pack)
	}
}

// Where every row is certain, a network opens strictly from left to right, on every device, while
// the greedy order goes by entropies.
func TestDreamTiesOnEveryDevice(t *testing.T) {
	const length = 12
	parity.RunEach(t, []string{"dream-tiny"}, func(t *testing.T, _ *parity.Pack, m model.Refiner,
		_ float64) {
		const rest = " schedule=dream steps=4"
		certain := openedOrder(t, m, "entropy temperature=0.001 top-p=0.9"+rest, length)
		all := slices.Concat(certain...)
		require.Len(t, all, length)
		require.True(t, slices.IsSorted(all), "%v", certain)
		greedy := slices.Concat(openedOrder(t, m, "greedy(entropy)"+rest, length)...)
		require.False(t, slices.IsSorted(greedy), "%v", greedy)
	})
}
