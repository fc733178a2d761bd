package decide

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
)

// The figures are those of the answers in both orders, and both orders are the same question: what
// is measured of a list with reversed options is the same with the orders exchanged.
func TestMeasureOrder(t *testing.T) {
	m, err := unmask.Load(t.Context(), filepath.Join("..", "testdata", "packs", "laya-tiny"),
		unmask.Options{})
	require.NoError(t, err)
	options := []Option{{Label: "billing", Description: "charges"}, {Label: "technical"},
		{Label: "sales"}}
	turned := []Option{options[2], options[1], options[0]}
	var list, other []KnownQuestion
	for right, text := range []string{"I was charged twice.", "It crashes.", "A quote, please."} {
		q := Question{Kind: Choice, Instructions: "Which queue?", Options: options}
		list = append(list, KnownQuestion{State: State{Text: text}, Question: q, Right: right})
		q.Options = turned
		other = append(other, KnownQuestion{State: State{Text: text}, Question: q, Right: 2 - right})
	}
	effect, err := MeasureOrder(t.Context(), m, list, Options{})
	require.NoError(t, err)
	reversed, err := MeasureOrder(t.Context(), m, other, Options{})
	require.NoError(t, err)
	require.Equal(t, 3, effect.Questions)
	require.InDelta(t, effect.Distance, reversed.Distance, 1e-6)
	require.Greater(t, effect.Distance, 0.0)
	require.InDelta(t, effect.Moved, reversed.Moved, 1e-9)
	require.InDelta(t, effect.InOrder.LogLoss, reversed.Reversed.LogLoss, 1e-6)
	require.InDelta(t, effect.Both.LogLoss, reversed.Both.LogLoss, 1e-6)

	answers, err := Ask(t.Context(), m, list[0].State, []Question{list[0].Question}, Options{})
	require.NoError(t, err)
	one, err := MeasureOrder(t.Context(), m, list[:1], Options{})
	require.NoError(t, err)
	want := MeasureQuality([]LabelledAnswer{{Kind: Choice, LogP: answers[0].LogP}}, 1)
	require.InDelta(t, want.LogLoss, one.InOrder.LogLoss, 1e-6)
}
