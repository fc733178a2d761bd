package paint_test

import (
	"context"
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/cpu"
	"unmask/demo"
	"unmask/generate"
	"unmask/paint"
)

// gradient returns a picture in which no two pixels of a row or column are equal.
func gradient(width, height int) *image.NRGBA {
	p := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		x, y := i%width, i/width
		p.SetNRGBA(x, y, color.NRGBA{uint8(3 * x), uint8(3 * y), uint8(x + y), 255})
	}
	return p
}

// All but one cell along a picture's edges is kept. The new part depends on the seed and on the
// picture's number, not on the batch.
func TestOutpaint(t *testing.T) {
	m, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	width, height, err := m.Pictures.Size()
	require.NoError(t, err)
	given := gradient(width, height)
	add := paint.Margins{Left: 20, Bottom: 8}
	p, err := m.Pictures.Outpaint(m.Denoiser, given, add)
	require.NoError(t, err)
	require.Equal(t, image.Pt(width+20, height+8), p.Size())
	require.Equal(t, 3, p.Windows()) // beside, below, and the corner
	requests := func(seed uint64, indexes ...uint32) (list []generate.Request) {
		for _, i := range indexes {
			q, err := m.Prepare(t.Context(), unmask.Request{Seed: seed, Index: i,
				Overrides: generate.Overrides{"steps": "3"}})
			require.NoError(t, err)
			list = append(list, q)
		}
		return list
	}
	draw := func(list []generate.Request) []*image.NRGBA {
		made, err := p.Draw(context.Background(), list)
		require.NoError(t, err)
		return made
	}
	together := draw(requests(1, 0, 1, 2))
	require.Len(t, together, 3)
	const cell = 4
	for _, made := range together {
		require.Equal(t, p.Size(), made.Rect.Size())
		for y := range height - cell {
			for x := cell; x < width; x++ {
				require.Equal(t, given.NRGBAAt(x, y), made.NRGBAAt(x+20, y), "%d, %d", x, y)
			}
		}
	}
	black := 0
	for i := range together[0].Rect.Dx() * together[0].Rect.Dy() {
		if p := together[0].Pix[4*i:]; p[0]|p[1]|p[2] == 0 {
			black++
		}
	}
	require.Less(t, black, 20, "what is not made is black")
	require.NotEqual(t, together[0], together[1])
	require.Equal(t, together[1:2], draw(requests(1, 1)))
	require.Equal(t, together[2:], draw(requests(1, 2)))
	require.NotEqual(t, together[2:], draw(requests(2, 2)))
	lost, err := p.RoundTripLoss()
	require.NoError(t, err)
	require.Greater(t, lost, 1.)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = p.Draw(ctx, requests(1, 0))
	require.ErrorIs(t, err, context.Canceled)
	for want, c := range map[string]struct {
		picture image.Image
		add     paint.Margins
	}{
		`grows by "", want margins of more than 0`: {given, paint.Margins{}},
		"want margins of more than 0":              {given, paint.Margins{Left: -1, Top: 3}},
		"the picture has 50 x 64 pixels with its margins, want 64 x 64 at least": {gradient(40, 64),
			paint.Margins{Left: 10}},
		"want 33554432 in all at most": {given, paint.Margins{Left: 1 << 25}},
	} {
		_, err := m.Pictures.Outpaint(m.Denoiser, c.picture, c.add)
		require.ErrorContains(t, err, want)
	}
	// A picture may be smaller than the model's if its margins make up for it.
	p, err = m.Pictures.Outpaint(m.Denoiser, gradient(40, 64), paint.Margins{Right: 24})
	require.NoError(t, err)
	require.Equal(t, 1, p.Windows())

	titok, err := unmask.Load(context.Background(), titokFolder(t),
		unmask.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	_, err = titok.Pictures.Outpaint(titok.Denoiser, given, add)
	require.EqualError(t, err,
		"the model's codes have no place in the picture, want a grid of codes")
}

// Windows stand half a window apart, and none is made where nothing is missing.
func TestWindowsCoverTheMargins(t *testing.T) {
	m := newStripes() // 6 x 6 pixels
	for _, c := range []struct {
		add     paint.Margins
		windows int
	}{
		{paint.Margins{Left: 1}, 2},           // above each other
		{paint.Margins{Right: 5}, 4},          // two of each side by side
		{paint.Margins{Left: 1, Top: 1}, 4},   // of x 0, 2 and y 0, 3, 4
		{paint.Margins{Left: 12, Top: 1}, 14}, // at 0, 3, 6, 9, 12 and 13
	} {
		p, err := m.Pictures.Outpaint(m.Denoiser, gradient(7, 9), c.add)
		require.NoError(t, err)
		require.Equal(t, c.windows, p.Windows(), "%v", c.add)
	}
}
