package images_test

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/media/images"
	"unmask/testkit/refusal"
)

func encode(t testing.TB, m image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.Bytes()
}

// Every kind of PNG gives the bytes that Pillow's convert("RGB") gives.
func TestKinds(t *testing.T) {
	at := image.Rect(0, 0, 2, 1)
	nrgba, gray := image.NewNRGBA(at), image.NewGray(at)
	nrgba.SetNRGBA(0, 0, color.NRGBA{10, 20, 30, 255})
	nrgba.SetNRGBA(1, 0, color.NRGBA{200, 100, 50, 0}) // transparent: its colour counts
	gray.SetGray(1, 0, color.Gray{77})
	palette := image.NewPaletted(at,
		color.Palette{color.NRGBA{1, 2, 3, 255}, color.NRGBA{250, 251, 252, 255}})
	palette.SetColorIndex(1, 0, 1)
	opaque := image.NewRGBA(at)
	opaque.SetRGBA(0, 0, color.RGBA{9, 8, 7, 255})
	opaque.SetRGBA(1, 0, color.RGBA{6, 5, 4, 255})
	for _, c := range []struct {
		picture image.Image
		want    []byte
	}{
		{nrgba, []byte{10, 20, 30, 200, 100, 50}},
		{gray, []byte{0, 0, 0, 77, 77, 77}},
		{palette, []byte{1, 2, 3, 250, 251, 252}},
		{opaque, []byte{9, 8, 7, 6, 5, 4}},
	} {
		m, err := images.Decode(encode(t, c.picture))
		require.NoError(t, err)
		require.Equal(t, &images.Image{Width: 2, Height: 1, Pix: c.want}, m)
	}
}

// Of 16 bits the upper 8 are taken, but grey is cut at 255, as Pillow 13 has it.
func TestSixteenBits(t *testing.T) {
	at := image.Rect(0, 0, 4, 1)
	grey, colour := image.NewGray16(at), image.NewNRGBA64(at)
	for i, v := range []uint16{0, 0xff, 0x1234, 0xff7f} {
		grey.SetGray16(i, 0, color.Gray16{Y: v})
		colour.SetNRGBA64(i, 0, color.NRGBA64{R: v, G: v, B: v, A: uint16(i)})
	}
	for _, c := range []struct {
		picture image.Image
		want    []byte
	}{{grey, []byte{0, 255, 255, 255}}, {colour, []byte{0, 0, 0x12, 0xff}}} {
		m, err := images.Decode(encode(t, c.picture))
		require.NoError(t, err)
		for i, v := range c.want {
			require.Equal(t, []byte{v, v, v}, m.Pix[3*i:3*i+3])
		}
	}
	got, err := images.Read("testdata/grey16.png") // with a transparent level
	require.NoError(t, err)
	want, err := images.Read("testdata/grey16-8.png")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// JPEGs differ from what Pillow reads by the rounding of another inverse transform alone.
func TestJPEG(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jpg")
	require.NoError(t, err)
	require.Len(t, files, 10)
	for _, name := range files {
		got, err := images.Read(name)
		require.NoError(t, err)
		want, err := images.Read(name[:len(name)-3] + "png")
		require.NoError(t, err)
		require.Equal(t, []int{want.Width, want.Height}, []int{got.Width, got.Height})
		sum := 0
		for i := range want.Pix {
			d := max(int(want.Pix[i])-int(got.Pix[i]), int(got.Pix[i])-int(want.Pix[i]))
			require.LessOrEqual(t, d, 3, "%s, byte %d", name, i)
			sum += d
		}
		require.LessOrEqual(t, float64(sum), 0.1*float64(len(want.Pix)), name)
	}
}

func TestPlace(t *testing.T) {
	picture := image.NewNRGBA(image.Rect(0, 0, 8, 4))
	for x := range 8 {
		for y := range 4 {
			picture.SetNRGBA(x, y, color.NRGBA{uint8(30 * x), uint8(60 * y), 0, 255})
		}
	}
	p, err := images.Place(image.Pt(8, 4), image.Pt(4, 4), "cover")
	require.NoError(t, err)
	require.Equal(t, images.Placement{Source: image.Rect(2, 0, 6, 4), Target: image.Rect(0, 0, 4, 4),
		Size: image.Pt(4, 4)}, p)
	require.Equal(t, color.NRGBA{60, 0, 0, 255}, p.Picture(picture).NRGBAAt(0, 0))

	p, err = images.Place(image.Pt(8, 4), image.Pt(8, 8), "contain")
	require.NoError(t, err)
	require.Equal(t, image.Rect(0, 2, 8, 6), p.Target)
	fitted := p.Picture(picture)
	require.Equal(t, fitted.NRGBAAt(3, 2), fitted.NRGBAAt(3, 0)) // a margin has the colour of the edge
	require.Equal(t, picture.NRGBAAt(3, 1), fitted.NRGBAAt(3, 3))
	mask := p.Mask(image.NewGray(image.Rect(0, 0, 8, 4)))
	require.Equal(t, uint8(255), mask.GrayAt(0, 1).Y)
	require.Equal(t, uint8(0), mask.GrayAt(0, 2).Y)

	_, err = images.Place(image.Pt(8, 4), image.Pt(8, 8), "")
	require.EqualError(t, err, "picture is 8 x 4 pixels, want 8 x 8, or fit cover or contain")
	for _, fit := range images.FitNames { // of any sizes
		for _, from := range []image.Point{{1, 1}, {1, 900}, {900, 1}, {7, 5}} {
			p, err := images.Place(from, image.Pt(64, 64), fit)
			require.NoError(t, err)
			require.Equal(t, image.Pt(64, 64),
				p.Picture(image.NewNRGBA(image.Rectangle{Max: from})).Rect.Size())
		}
	}
}

func TestHole(t *testing.T) {
	size := image.Rect(0, 0, 2, 1)
	picture, mask := image.NewNRGBA(size), image.NewNRGBA(size)
	picture.Pix = []byte{9, 9, 9, 255, 9, 9, 9, 0}
	mask.Pix = []byte{255, 255, 255, 255, 0, 0, 0, 255}
	hole := func(picture, mask image.Image, box image.Rectangle) []byte {
		h, err := images.HoleMask(picture, mask, box)
		require.NoError(t, err)
		return h.Pix
	}
	require.Equal(t, []byte{0, 255}, hole(picture, nil, image.Rectangle{}))
	require.Equal(t, []byte{255, 0}, hole(picture, mask, image.Rectangle{}))
	require.Equal(t, []byte{255, 255}, hole(picture, mask, image.Rect(1, 0, 2, 1)))
	// alpha counts where there is any
	require.Equal(t, []byte{0, 255}, hole(mask, picture, image.Rectangle{}))
	require.Equal(t, []byte{255, 0}, hole(mask, nil, image.Rect(0, 0, 1, 1)))
	require.Equal(t, []byte{0, 0}, hole(mask, nil, image.Rectangle{}))
	_, err := images.HoleMask(mask, nil, image.Rect(0, 0, 3, 1))
	refusal.RequireText(t, err, "want it within 2 x 1 pixels")
}

func TestRefused(t *testing.T) {
	at := image.Rect(0, 0, 8, 8)
	var jpg, gifs bytes.Buffer
	require.NoError(t, jpeg.Encode(&jpg, image.NewGray(at), nil))
	require.NoError(t, gif.Encode(&gifs, image.NewGray(at), nil))
	whole := encode(t, image.NewGray(at))
	huge := bytes.Clone(whole)
	// sizes of the header, 2^31-1
	copy(huge[16:], []byte{0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff})
	for _, c := range []struct {
		data []byte
		want string
	}{
		{jpg.Bytes()[:20], "a damaged JPEG: "},
		{jpg.Bytes()[:len(jpg.Bytes())/2], "a damaged JPEG: "},
		{gifs.Bytes(), "a GIF image, want PNG or JPEG"},
		{nil, "not an image"},
		{whole[:len(whole)/2], "a damaged PNG: "},
		{huge, "a damaged PNG: "},
	} {
		_, err := images.Decode(c.data)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	_, err := images.List(dir)
	require.ErrorContains(t, err, "no PNG or JPEG files")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	for _, name := range []string{"b.png", "a/c.PNG", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name),
			encode(t, image.NewGray(image.Rect(0, 0, 1, 1))), 0o644))
	}
	names, err := images.List(dir)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "a", "c.PNG"), filepath.Join(dir, "b.png")}, names)
	m, err := images.Read(names[0])
	require.NoError(t, err)
	require.Equal(t, 1, m.Width)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d.jpeg"), nil, 0o644))
	names, err = images.List(dir)
	require.NoError(t, err)
	require.Len(t, names, 3)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "e.webp"), nil, 0o644))
	_, err = images.List(dir)
	require.ErrorContains(t, err, "e.webp: a webp image, want PNG or JPEG")
	_, err = images.Read(filepath.Join(dir, "notes.png"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzDecode(f *testing.F) {
	whole := encode(f, image.NewNRGBA(image.Rect(0, 0, 3, 2)))
	f.Add(whole)
	f.Add(whole[:20])
	f.Add([]byte("\xff\xd8\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := images.Decode(data)
		if err == nil {
			require.Len(t, m.Pix, 3*m.Width*m.Height)
		}
	})
}
