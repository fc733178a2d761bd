package unmask_test

import (
	"image"
	"image/color"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/generate"
	"unmask/model"
)

// loadDemos returns the embedded models on the plain device, which loads quickly and computes
// slowly.
func loadDemos(t testing.TB) (text, picture *unmask.Model) {
	o := unmask.Options{Backend: plain.New()}
	text, err := unmask.LoadFS(demo.Text(), "demo", o)
	require.NoError(t, err)
	picture, err = unmask.LoadFS(demo.Image(), "demo-image", o)
	require.NoError(t, err)
	return text, picture
}

func TestKindIsWhatTheNetworkSays(t *testing.T) {
	text, picture := loadDemos(t)
	require.Equal(t, model.KindText, text.Kind())
	require.NotNil(t, text.Text)
	require.Nil(t, text.Pictures)
	require.Equal(t, model.KindImage, picture.Kind())
	require.Nil(t, picture.Text)
	require.NotNil(t, picture.Pictures)
	own := unmask.NewModel(&model.Loaded{Denoiser: text.Denoiser}, text.Backend, nil)
	require.Equal(t, model.KindTokens, own.Kind())
	require.Nil(t, own.Text)
	require.Nil(t, own.Pictures)
}

func TestPrompt(t *testing.T) {
	m, _ := loadDemos(t)
	known, err := m.Text.Encode("To be,")
	require.NoError(t, err)
	tokens, err := m.Text.Prompt("To be,", 16)
	require.NoError(t, err)
	require.Len(t, tokens, 16+len(m.Spec().Before))
	at := slices.Index(tokens, known[0])
	require.Equal(t, known, tokens[at:at+len(known)])
	require.Equal(t, 16-len(known), masked(tokens, m))
	_, err = m.Text.Prompt("To be, or not", 2)
	require.ErrorContains(t, err, "want at most 2")
	_, err = m.Text.Prompt("x", 100000)
	require.ErrorContains(t, err, "length is 100000, want 1 to 255, or 0 for 255")
}

func TestInfill(t *testing.T) {
	m, _ := loadDemos(t)
	tokens, err := m.Text.Infill("To be, [20] that is", 0)
	require.NoError(t, err)
	require.Equal(t, 20, masked(tokens, m))
	require.Equal(t, "To be, "+strings.Repeat(unmask.Hole, 20)+" that is", m.Text.Decode(tokens))
	tokens, err = m.Text.Infill("To be, [20] that is", 64)
	require.NoError(t, err)
	require.Len(t, tokens, 64+len(m.Spec().Before))
	for text, want := range map[string]string{
		"none": "no hole", "[0]": "hole is [0], want 1 to 255 tokens", "[200] [200]": "want at most 255",
	} {
		_, err := m.Text.Infill(text, 0)
		require.ErrorContains(t, err, want)
	}
}

func masked(tokens []int32, m *unmask.Model) (n int) {
	for _, t := range tokens {
		if t == m.Spec().Mask {
			n++
		}
	}
	return n
}

func TestConstraints(t *testing.T) {
	text, picture := loadDemos(t)
	prepare := func(m *unmask.Model, length int, c unmask.Constraints) (generate.Request, error) {
		return m.Prepare(t.Context(), unmask.Request{Length: length, Constraints: c})
	}
	r, err := prepare(text, 0,
		unmask.Constraints{Ban: []string{"3,17", "the"}, Bias: []string{"5=2.5", "5=-1"}})
	require.NoError(t, err)
	the, err := text.Text.Encode("the")
	require.NoError(t, err)
	require.Equal(t, append([]int32{3, 17}, the...), r.Filter.Ban)
	require.Equal(t, map[int32]float32{5: 1.5}, r.Filter.Bias)

	r, err = prepare(text, 8, unmask.Constraints{MinLength: 4, End: "3"})
	require.NoError(t, err)
	logits := make([]float32, 9)
	begin := len(text.Spec().Before)
	r.Adjust(begin+3, logits)
	require.Less(t, logits[3], float32(-1e30))
	clear(logits)
	r.Adjust(begin+4, logits)
	require.Zero(t, logits[3])

	for want, c := range map[string]unmask.Constraints{
		"ban: token is 5000, want 0 to":     {Ban: []string{"5000"}},
		"has no value, want TOKENS=VALUE":   {Bias: []string{"5"}},
		`is "x", want a number`:             {Bias: []string{"5=x"}},
		"min-length is 9, want 0 to 8":      {MinLength: 9, End: "3"},
		`end: "3,4" is 2 tokens, want one`:  {MinLength: 1, End: "3,4"},
		"min-length is -1, want 0 to 8":     {MinLength: -1, End: "3"},
		`ban: tokens are "", want at least`: {Ban: []string{""}},
	} {
		_, err := prepare(text, 8, c)
		require.ErrorContains(t, err, want)
	}
	_, err = prepare(picture, 0, unmask.Constraints{Ban: []string{"x"}})
	require.ErrorContains(t, err, "want ids such as 3,17")
	_, err = prepare(picture, 0, unmask.Constraints{MinLength: 1})
	require.ErrorContains(t, err, "makes no text")
}

func TestCut(t *testing.T) {
	require.Equal(t, []int32{7, 1, 2}, unmask.Cut([]int32{7, 1, 2, 7, 3}, 1, 7))
	require.Equal(t, []int32{1, 2}, unmask.Cut([]int32{1, 2}, 0, 7))
}

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

// Codes lose nothing of a picture that they can represent. Of any other, RoundTrip measures the
// loss where hole keeps pixels, and Paste puts these back.
func TestRoundTripAndPaste(t *testing.T) {
	m := newStripes()
	picture, err := m.Pictures.Image([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8})
	require.NoError(t, err)
	hole := image.NewGray(image.Rect(0, 0, 6, 6))
	lost, err := m.Pictures.RoundTrip(picture, hole)
	require.NoError(t, err)
	require.Zero(t, lost)

	// was 0, and is no corner of a cell
	picture.SetNRGBA(1, 1, color.NRGBA{R: 100, G: 100, B: 100, A: 255})
	lost, err = m.Pictures.RoundTrip(picture, hole)
	require.NoError(t, err)
	require.InDelta(t, 300./(36*3), lost, 1e-9)
	hole.SetGray(1, 1, color.Gray{255})
	lost, err = m.Pictures.RoundTrip(picture, hole)
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
