package picture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
)

// Each buffer of a canvas has the size of the largest image that a run writes to it, not that of
// the largest image anywhere.
func TestCanvasForRuns(t *testing.T) {
	wide, narrow, up := NewConv(64, 3, 3), NewConv(32, 64, 1), NewUpsampling(64)
	v := NewCanvas(plain.New(), func(v *Canvas) {
		v.Begin(4, 2)
		v.Write(make([]float32, 4*2*3)) // X
		v.ConvolveImage(&wide, nil)     // H, which becomes X
		v.Upsample(&up)                 // the first X
		// the third buffer
		v.Convolve(v.Shortcut(), v.X, &narrow, backend.ConvInput{}, backend.Epilogue{})
		v.SwapShortcut()
	}, func(v *Canvas) {
		v.Begin(1, 1)
		v.Write(make([]float32, 7))
	})
	sizes := func() (list []int) {
		for _, b := range v.buffers {
			list = append(list, b.Shape().TotalSize())
		}
		return list
	}
	require.Equal(t, []int{8 * 4 * 64, 4 * 2 * 64, 8 * 4 * 32}, sizes())
	v.Begin(4, 2)
	first := v.X
	v.Swap()
	v.SwapShortcut()
	v.Begin(4, 2)
	require.Same(t, first, v.X)
	require.Equal(t, 4, v.Height)
	require.Equal(t, 2, v.Width)
}
