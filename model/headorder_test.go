package model

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/backend"
)

// Rows of a call are put in the order of their heads, those of a head in the order of the call, and
// results come back to the rows that they belong to, whatever the number of heads.
func TestRowsInTheOrderOfHeads(t *testing.T) {
	var order headOrder
	rapid.Check(t, func(t *rapid.T) {
		heads := rapid.IntRange(0, 4).Draw(t, "heads")
		rows := rapid.SliceOfN(rapid.Int32Range(0, 20), 1, 9).Draw(t, "rows")
		var uniform []float64
		for i := range rows {
			uniform = append(uniform, float64(i)/10)
		}
		sorted := slices.Clone(order.sortRows(rows, make([]backend.Head, heads)))
		want := slices.Clone(rows)
		if heads > 1 {
			slices.SortStableFunc(want, func(a, b int32) int { return int(a)%heads - int(b)%heads })
		}
		require.Equal(t, want, sorted)

		moved := slices.Clone(order.sortUniform(uniform))
		for i, row := range sorted {
			require.Equal(t, rows[order.callIndex(i)], row)
			require.Equal(t, uniform[order.callIndex(i)], moved[i])
		}
		unsort(&order, sorted, &order.tokens)
		unsort(&order, moved, &order.floats)
		require.Equal(t, rows, sorted)
		require.Equal(t, uniform, moved)
	})
}
