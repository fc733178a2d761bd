package images

import (
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnlarge(t *testing.T) {
	p := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	for i := range 6 {
		p.SetNRGBA(i%3, i/3, color.NRGBA{R: uint8(i), G: 7, B: 9, A: 255})
	}
	require.Same(t, p, Enlarge(p, 1))
	q := Enlarge(p, 4)
	require.Equal(t, image.Rect(0, 0, 12, 8), q.Rect)
	for y := range 8 {
		for x := range 12 {
			require.Equal(t, p.NRGBAAt(x/4, y/4), q.NRGBAAt(x, y))
		}
	}
}
