package generate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
)

// Blocks of semi-ar are those of dLLM's samplers, and of runs before them with even=1. Each row has
// the positions that may open in each step, as first and last, and how many steps have them.
func TestCut(t *testing.T) {
	type stretch struct{ first, last, steps int }
	for _, c := range []struct {
		name    string
		recipe  string
		length  int
		known   []int // positions
		want    []stretch
		planned int // steps of the recipe
	}{
		{"a short last block", "semi-ar(low-confidence, block=8)", 12, nil,
			[]stretch{{0, 7, 8}, {8, 11, 4}}, 16},
		{"equal parts", "semi-ar(low-confidence, block=8, even=1)", 12, nil,
			[]stretch{{0, 5, 6}, {6, 11, 6}}, 12},
		{"few steps", "semi-ar(low-confidence, block=8) steps=6", 20, nil,
			[]stretch{{0, 7, 2}, {8, 15, 2}, {16, 19, 2}}, 6},
		{"steps that do not divide", "semi-ar(low-confidence, block=8) steps=7", 20, nil,
			[]stretch{{0, 7, 3}, {8, 15, 3}, {16, 19, 3}}, 7},
		{"more steps than the last block has positions", "semi-ar(low-confidence, block=8) steps=16", 18,
			nil, []stretch{{0, 7, 6}, {8, 15, 6}, {16, 17, 2}}, 16},
		{"after a prompt", "semi-ar(low-confidence, block=4)", 9, []int{0, 1, 2},
			[]stretch{{3, 6, 4}, {7, 8, 2}}, 8},
		{"a hole", "semi-ar(low-confidence, block=4)", 12, []int{0, 1, 2, 11},
			[]stretch{{3, 3, 1}, {4, 7, 3}, {8, 10, 3}}, 8},
		{"a hole, equal parts", "semi-ar(low-confidence, block=4, even=1)", 12, []int{0, 1, 2, 11},
			[]stretch{{3, 6, 4}, {7, 10, 4}}, 8},
		{"holes apart", "semi-ar(low-confidence, block=4) steps=8", 13, []int{2, 4, 5, 6, 7, 9},
			[]stretch{{0, 3, 2}, {8, 11, 2}, {12, 12, 1}}, 8},
		{"a schedule that idles", "semi-ar(low-confidence, block=4) schedule=dream steps=20", 6, nil,
			[]stretch{{0, 3, 10}, {4, 5, 10}}, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newTable(c.length)
			o := generate.Options{Request: generate.Request{Recipe: recipe(t, c.recipe), Length: c.length}}
			if c.known != nil {
				o.Known = slices.Repeat([]int32{9}, c.length)
				for _, p := range c.known {
					o.Known[p] = 1
				}
			}
			checked, err := o.Check(d)
			require.NoError(t, err)
			require.Equal(t, c.planned, checked.Steps)
			var got []int // the block of each step that opens something
			n := 0
			for step, err := range generate.Run(t.Context(), d, o) {
				require.NoError(t, err)
				n = step.Sequences[0].N
				for _, opened := range step.Sequences[0].Opened {
					got = append(got, slices.IndexFunc(c.want, func(s stretch) bool {
						return s.first <= opened.Position && opened.Position <= s.last
					}))
				}
			}
			require.True(t, slices.IsSorted(got) && got[0] == 0, "%v", got)
			steps := 0
			for _, s := range c.want {
				steps += s.steps
			}
			require.Equal(t, steps, n)
		})
	}
}
