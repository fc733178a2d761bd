package scenes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Scenes repeat by their seed and use the whole range of colours.
func TestScenes(t *testing.T) {
	a, _ := Draw(12, 3)
	b, _ := Draw(12, 3)
	other, _ := Draw(4, 4)
	require.Equal(t, a, b)
	require.NotEqual(t, a[:4], other)
	dark, light := false, false
	for _, p := range a {
		require.Len(t, p.Pix, 3*sceneSide*sceneSide)
		for _, v := range p.Pix {
			dark, light = dark || v < 60, light || v > 200
		}
	}
	require.True(t, dark && light)
}
