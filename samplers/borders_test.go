package samplers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The loop of ReMDM remasks from loopOn, itself included, to loopOff, and alpha has no jump there.
func TestPhasesOfTheLoop(t *testing.T) {
	const eta = 0.5
	for _, c := range []struct {
		t     float64
		alpha float64
		sigma float64
	}{
		{1, 0, 0},
		{loopOn + 1e-12, loopAlpha, 0},
		{loopOn, loopAlpha, eta},
		{0.3, loopAlpha, eta},
		{loopOff, loopAlpha, 0},
		{0, 1, 0},
	} {
		alpha, _, sigma := loopAlphas(c.t, c.t, eta)
		require.InDelta(t, c.alpha, alpha, 1e-9, "at %v", c.t)
		require.Equal(t, c.sigma, sigma, "at %v", c.t)
	}
}

// Masks and end tokens at the end are unused, as they are after an opening.
func TestUnusedAtEnd(t *testing.T) {
	const mask, end = 9, 2
	v := &View{Tokens: []int32{1, 5, mask, mask, end, mask}, Mask: mask, EndTokens: []int32{end}}
	for _, c := range []struct {
		positions []int
		tokens    []int32
		first     int
		want      int
	}{
		{nil, nil, 0, 4},
		{nil, nil, 3, 3},
		{[]int{5}, []int32{end}, 0, 4},
		{[]int{5}, []int32{7}, 0, 0},
		{[]int{3, 5}, []int32{7, end}, 0, 2},
		{[]int{2, 3}, []int32{end, 7}, 0, 2},
	} {
		o := Opening{Positions: c.positions, Tokens: c.tokens}
		require.Equal(t, c.want, v.unusedAtEnd(o, c.first), "%+v", c)
	}
}
