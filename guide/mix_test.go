package guide

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Segments are the runs of mixed rows of each sequence, none of which could be joined with the
// next, and other rows are at the same positions of the other passes.
func TestSegmentsAreWholeRuns(t *testing.T) {
	const length = 5
	rapid.Check(t, func(t *rapid.T) {
		other := rapid.SliceOfN(rapid.Int32Range(-1, 7), 1, 4).Draw(t, "other passes")
		all := make([]int32, length*len(other))
		for i := range all {
			all[i] = int32(i)
		}
		rows := slices.DeleteFunc(all, func(int32) bool { return rapid.Bool().Draw(t, "left out") })

		m := &headMixer{g: &Guided{otherPass: other}, length: length}
		m.findOtherRows(rows)
		var mixed []int
		for k, s := range m.segments {
			require.Positive(t, s.Rows)
			for i := s.Row; i < s.Row+s.Rows; i++ {
				require.EqualValues(t, s.Seq, rows[i]/length)
				mixed = append(mixed, i)
			}
			if k > 0 {
				before := m.segments[k-1]
				require.False(t, before.Seq == s.Seq && before.Row+before.Rows == s.Row, "%v", m.segments)
			}
		}
		var want []int
		for i, r := range rows {
			if other[r/length] >= 0 {
				require.Equal(t, other[r/length]*length+r%length, m.otherRows[len(want)])
				want = append(want, i)
			}
		}
		require.Equal(t, want, mixed)
		require.Len(t, m.otherRows, len(want))
		require.Len(t, m.mixedAt, len(want))
		for i, at := range m.mixedAt {
			require.EqualValues(t, want[i], at)
		}
	})
}

// What the condition forbids stays forbidden, and a scale of 0 changes nothing, also where the
// other pass forbids.
func TestMixedRowsKeepWhatIsForbidden(t *testing.T) {
	never := float32(math.Inf(-1))
	for _, c := range []struct{ c, u, w, want float32 }{
		{1, 3, 2, -3},
		{1, 3, 0, 1},
		{1, never, 0, 1},
		{never, 3, 2, never},
		{never, never, 2, never},
		{never, never, 0, never},
	} {
		row := []float32{c.c}
		mixRow(row, []float32{c.u}, c.w)
		require.Equal(t, []float32{c.want}, row, "%v", c)
	}
}
