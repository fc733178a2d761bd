package paint_test

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/model"
	"unmask/param"
	"unmask/testkit/refusal"
)

// stripes is a codec of 3 x 3 codes; each decodes to 2 x 2 pixels of one grey.
type stripes struct{}

func (stripes) Shape() []int                    { return []int{3, 3} }
func (stripes) Codes() int                      { return 9 }
func (stripes) Size() (int, int)                { return 6, 6 }
func (stripes) Decode([]float32, []int32) error { return nil }

func (stripes) Image(codes []int32) (*image.NRGBA, error) {
	p := image.NewNRGBA(image.Rect(0, 0, 6, 6))
	for i := range 36 {
		v := uint8(codes[i/12*3+i%6/2])
		p.SetNRGBA(i%6, i/6, color.NRGBA{v, v, v, 255})
	}
	return p, nil
}

func (stripes) EncodeImage(p image.Image) ([]int32, error) {
	codes := make([]int32, 9)
	for i := range codes {
		v, _, _, _ := p.At(i%3*2, i/3*2).RGBA()
		codes[i] = int32(v >> 8)
	}
	return codes, nil
}

// ids is a denoiser of 3 x 3 codes; tests use its Spec only.
type ids struct{ model.Denoiser }

func (ids) Spec() model.Spec {
	return model.Spec{Shape: []int{3, 3}, Outcomes: 9, Mask: 9, Fixed: true}
}

func newStripes() *unmask.Model {
	codec := func() (model.Codec, error) { return stripes{}, nil }
	return unmask.NewModel(&model.Loaded{Denoiser: ids{}, Kind: model.KindImage, Codec: codec},
		plain.New(), nil)
}

func TestFill(t *testing.T) {
	const mask = 9
	p := newStripes().Pictures
	filled, masked, err := p.Fill([]int32{mask, 3, mask, mask, mask, mask, mask, mask, 5})
	require.NoError(t, err)
	require.Equal(t, []int{0, 2, 3, 4, 5, 6, 7}, masked)
	require.Equal(t, []int32{3, 3, 3, 3, 3, 5, 5, 5, 5}, filled)
	filled, masked, err = p.Fill(slices.Repeat([]int32{mask}, 9))
	require.NoError(t, err)
	require.Equal(t, make([]int32, 9), filled)
	require.Len(t, masked, 9)
	cells, err := p.Cells([]int{4, 8})
	require.NoError(t, err)
	require.Equal(t, []image.Rectangle{image.Rect(2, 2, 4, 4), image.Rect(4, 4, 6, 6)}, cells)
	for _, outside := range []int{-1, 9} {
		_, err = p.Cells([]int{4, outside})
		require.EqualError(t, err, fmt.Sprintf("position is %d, want 0 to 8", outside))
	}
}

// image.Uniform's bounds are so wide that no memory has room for its pixels.
func TestPicturesOfTooManyPixels(t *testing.T) {
	const want = "picture is 2000000000 x 2000000000 pixels, want 1 to 33554432 in all"
	p := newStripes().Pictures
	_, err := p.Fit(image.White, "cover")
	require.EqualError(t, err, want)
	for _, box := range []image.Rectangle{{}, image.Rect(0, 0, 9, 9)} {
		_, err = p.Inpaint(image.White, nil, box, "cover")
		require.EqualError(t, err, want)
	}
}

func TestInpaintMasksTheCellsThatWhiteTouches(t *testing.T) {
	m := newStripes()
	picture, err := m.Pictures.Image([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8})
	require.NoError(t, err)
	hole := image.NewGray(image.Rect(0, 0, 6, 6))
	hole.SetGray(3, 2, color.Gray{255})
	hole.SetGray(5, 5, color.Gray{127}) // nearer to black
	tokens, err := m.Pictures.Mask(picture, hole)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2, 3, 9, 5, 6, 7, 8}, tokens)
	_, err = m.Pictures.Mask(picture, image.NewGray(image.Rect(0, 0, 5, 6)))
	require.ErrorContains(t, err, "the mask is 5 x 6 pixels, want 6 x 6")
}

// Margins are a hole by themselves, and a picture of which nothing is made new is refused.
func TestInpaintNeedsAHoleInThePlacedPicture(t *testing.T) {
	p := newStripes().Pictures
	wide, black := image.NewNRGBA(image.Rect(0, 0, 12, 6)), image.NewGray(image.Rect(0, 0, 12, 6))
	draw.Draw(wide, wide.Rect, image.White, image.Point{}, draw.Src)
	in, err := p.Inpaint(wide, nil, image.Rectangle{}, "contain")
	require.NoError(t, err)
	require.Equal(t, []int32{9, 9, 9}, in.Tokens[:3])
	require.NotContains(t, in.Tokens[3:6], int32(9)) // the picture is at y = 1 to 3
	for _, c := range []struct {
		mask image.Image
		box  image.Rectangle
		want string
	}{
		{nil, image.Rectangle{}, "no part of the picture is transparent, want a mask or a box"},
		{black, image.Rectangle{}, "no part of the picture at the model's size is in the box"},
		{nil, image.Rect(0, 0, 2, 6), "no part of the picture at the model's size is in the box"},
	} {
		_, err := p.Inpaint(wide, c.mask, c.box, "cover")
		refusal.RequireText(t, err, c.want)
		refused, ok := errors.AsType[*param.Error](err)
		require.True(t, ok)
		require.Equal(t, param.NoHole, refused.Reason)
	}
}

// Codes lose nothing of a picture that they can represent. Of any other, RoundTrip measures the
// loss where hole keeps pixels, and Paste puts these back.
func TestRoundTripAndPaste(t *testing.T) {
	m := newStripes()
	picture, err := m.Pictures.Image([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8})
	require.NoError(t, err)
	hole := image.NewGray(image.Rect(0, 0, 6, 6))
	lost, err := m.Pictures.RoundTripLoss(picture, hole)
	require.NoError(t, err)
	require.Zero(t, lost)

	// was 0, and is no corner of a cell
	picture.SetNRGBA(1, 1, color.NRGBA{R: 100, G: 100, B: 100, A: 255})
	lost, err = m.Pictures.RoundTripLoss(picture, hole)
	require.NoError(t, err)
	require.InDelta(t, 300./(36*3), lost, 1e-9)
	hole.SetGray(1, 1, color.Gray{255})
	lost, err = m.Pictures.RoundTripLoss(picture, hole)
	require.NoError(t, err)
	require.Zero(t, lost, "what is not kept does not count")

	made := image.NewNRGBA(image.Rect(0, 0, 6, 6))
	for i := range made.Pix {
		made.Pix[i] = 200
	}
	require.NoError(t, m.Pictures.Paste(made, picture, hole))
	at := func(x, y int) uint8 { return made.NRGBAAt(x, y).R }
	require.EqualValues(t, 200, at(1, 1), "the hole is new")
	require.EqualValues(t, 100, at(0, 0), "half of 0 and 200: one pixel of a cell of 2")
	require.EqualValues(t, picture.NRGBAAt(3, 1).R, at(3, 1))
	require.EqualValues(t, picture.NRGBAAt(5, 5).R, at(5, 5))
	require.ErrorContains(t, m.Pictures.Paste(made, picture, image.NewGray(image.Rect(0, 0, 6, 5))),
		"a picture is 6 x 5 pixels, want 6 x 6")

	for i, d := range []int{1, 1, 1, 2, 3, 4} {
		black := image.NewNRGBA(image.Rect(0, 0, 6, 6))
		white := image.NewNRGBA(image.Rect(0, 0, 6, 6))
		for j := range black.Pix {
			black.Pix[j], white.Pix[j] = 0, 255
		}
		require.NoError(t, m.Pictures.Paste(black, white, hole))
		want := []uint8{0, 128, 255}[min(d, 2)]
		if i == 1 {
			want = 128 // beside the hole, not in it
		}
		require.Equal(t, want, black.NRGBAAt(i, 0).R, "%d", i)
	}
}
