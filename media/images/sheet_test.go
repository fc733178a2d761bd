package images

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"testing"

	"github.com/stretchr/testify/require"
)

func plain(side int, c color.NRGBA) *image.NRGBA {
	p := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		p.SetNRGBA(i%side, i/side, c)
	}
	return p
}

func TestSheet(t *testing.T) {
	red, blue := color.NRGBA{200, 10, 10, 255}, color.NRGBA{10, 10, 200, 255}
	s := NewSheet(5, image.Pt(32, 32)) // 3 columns, 2 rows, margins of 2
	require.Equal(t, image.Rect(0, 0, 3*34+2, 2*34+2), s.Canvas.Rect)
	s.Put(0, plain(32, red))
	s.Put(4, plain(32, blue))
	require.Equal(t, image.Pt(2, 2), s.Corner(0))
	require.Equal(t, image.Pt(36, 36), s.Corner(4))
	for p, want := range map[image.Point]color.NRGBA{
		{X: 1, Y: 1}: paper, {X: 2, Y: 2}: red, {X: 33, Y: 33}: red, {X: 34, Y: 33}: paper,
		{X: 36, Y: 36}: blue, {X: 67, Y: 67}: blue, {X: 68, Y: 67}: paper,
	} {
		require.Equal(t, want, s.Canvas.NRGBAAt(p.X, p.Y), p)
	}
	DrawCheck(s.Canvas, []image.Rectangle{image.Rect(0, 0, 4, 4).Add(s.Corner(4))})
	dark, light := cube[checkDark], cube[checkDark+1]
	for p, want := range map[image.Point]color.Color{{X: 36, Y: 36}: dark, {X: 38, Y: 36}: light,
		{X: 39, Y: 39}: dark, {X: 40, Y: 36}: blue} {
		require.Equal(t, want, s.Canvas.At(p.X, p.Y), p)
	}
	require.Equal(t, image.Rect(0, 0, 8, 8), NewSheet(1, image.Pt(4, 4)).Canvas.Rect)
}

// Dithering keeps the mean of an area and leaves exact levels unchanged.
func TestFrame(t *testing.T) {
	var frames gif.GIF
	add := func(c color.NRGBA, masked ...image.Rectangle) {
		frames.Image = append(frames.Image, GIFFrame(plain(16, c), masked))
		frames.Delay = append(frames.Delay, 10)
	}
	colours := []color.NRGBA{{0, 0, 0, 255}, {255, 255, 255, 255}, {51, 85, 204, 255},
		{120, 33, 77, 255}, {254, 1, 128, 255}}
	for _, c := range colours {
		add(c)
	}
	add(colours[1], image.Rect(4, 4, 8, 8))
	var b bytes.Buffer
	require.NoError(t, gif.EncodeAll(&b, &frames))
	g, err := gif.DecodeAll(&b)
	require.NoError(t, err)
	require.Len(t, g.Image, len(colours)+1)
	for i, c := range colours {
		var sum [3]int
		for p := range 16 * 16 {
			r, gr, bl, _ := g.Image[i].At(p%16, p/16).RGBA()
			sum[0], sum[1], sum[2] = sum[0]+int(r>>8), sum[1]+int(gr>>8), sum[2]+int(bl>>8)
		}
		for j, want := range []uint8{c.R, c.G, c.B} {
			require.InDelta(t, int(want), sum[j]/256, 3, "%v %d", c, j)
		}
	}
	r, _, _, _ := g.Image[5].At(3, 4).RGBA()
	require.EqualValues(t, 0xffff, r)
	r, _, _, _ = g.Image[5].At(4, 4).RGBA()
	require.EqualValues(t, 0x8080, r)
}

func TestNRGBA(t *testing.T) {
	m := &Image{Width: 2, Height: 1, Pix: []byte{1, 2, 3, 4, 5, 6}}
	require.Equal(t, []byte{1, 2, 3, 255, 4, 5, 6, 255}, m.NRGBA().Pix)
	require.Equal(t, m, fromImage(m.NRGBA()))
}
