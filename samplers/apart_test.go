package samplers_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/samplers"
)

// An opening of apart has the most probable position and as many as the quota. Positions beyond the
// quota reach theta and have no neighbour among those before them. It has neighbours only where no
// position without one is left.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 6).Draw(t, "width")
		height := rapid.IntRange(1, 5).Draw(t, "height")
		n := width * height
		shape := []int{height, width}
		if height == 1 {
			shape = []int{n}
		}
		masked := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, n, rapid.ID[int]).Draw(t, "masked")
		slices.Sort(masked)
		quota := rapid.IntRange(1, len(masked)).Draw(t, "quota")
		theta := rapid.Float64Range(0.05, 1).Draw(t, "theta")
		p := rapid.SliceOfN(rapid.Float64Range(0.01, 1), len(masked), len(masked)).Draw(t, "p")
		v := &samplers.View{Tokens: make([]int32, n), Shape: shape, Masked: masked, Quota: quota, P1: p,
			Arg: make([]int32, len(masked))}
		o, err := samplers.Apart{Theta: theta}.Choose(v)
		require.NoError(t, err)

		near := func(a, b int) bool {
			dx, dy := a%width-b%width, a/width-b/width
			return dx*dx+dy*dy == 1
		}
		at := func(position int) float64 { return p[v.Index(position)] }
		isFree := func(position int, taken []int) bool {
			return !slices.ContainsFunc(taken, func(q int) bool { return near(q, position) })
		}
		require.Equal(t, slices.Max(p), at(o.Positions[0]))
		require.GreaterOrEqual(t, len(o.Positions), quota)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(o.Positions))), len(o.Positions))
		for i, position := range o.Positions {
			before := o.Positions[:i]
			if i >= quota {
				require.GreaterOrEqual(t, at(position), theta)
				require.True(t, isFree(position, o.Positions[:i]))
			}
			if isFree(position, before) {
				continue
			}
			for _, other := range masked { // no other could have been taken
				if !slices.Contains(before, other) {
					require.False(t, isFree(other, before), "%d beside %v", other, before)
				}
			}
		}
		for _, other := range masked { // whatever is sure and stands alone is there
			if at(other) >= theta && !slices.Contains(o.Positions, other) {
				require.False(t, isFree(other, o.Positions))
			}
		}
	})
}

// The share of rest is that of the positions that are left, however many were opened before.
func TestRest(t *testing.T) {
	follower := samplers.Rest.(samplers.Follower)
	rapid.Check(t, func(t *rapid.T) {
		masked := rapid.IntRange(1, 500).Draw(t, "masked")
		left := rapid.IntRange(1, masked).Draw(t, "left")
		steps := 0
		for masked > 0 {
			share := follower.Share(masked, left-steps)
			require.Equal(t, (masked+left-steps-1)/(left-steps), share)
			masked -= min(masked, share+rapid.IntRange(0, 3).Draw(t, "more"))
			steps++
		}
		require.LessOrEqual(t, steps, left)
	})
}
