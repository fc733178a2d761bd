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

	"unmask/images"
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
	palette := image.NewPaletted(at, color.Palette{color.NRGBA{1, 2, 3, 255}, color.NRGBA{250, 251, 252, 255}})
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

func TestRefused(t *testing.T) {
	at := image.Rect(0, 0, 8, 8)
	var jpg, gifs bytes.Buffer
	require.NoError(t, jpeg.Encode(&jpg, image.NewGray(at), nil))
	require.NoError(t, gif.Encode(&gifs, image.NewGray(at), nil))
	whole := encode(t, image.NewGray(at))
	huge := bytes.Clone(whole)
	copy(huge[16:], []byte{0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff}) // sizes of the header, 2^31-1
	for _, c := range []struct {
		data []byte
		want string
	}{
		{jpg.Bytes(), "a JPEG image, allowed is PNG"},
		{gifs.Bytes(), "a GIF image, allowed is PNG"},
		{nil, "not an image"},
		{whole[:len(whole)/2], "a damaged PNG: "},
		{huge, "a damaged PNG: "},
		{encode(t, image.NewGray16(at)), "16 bits a channel, allowed are 8"},
		{encode(t, image.NewNRGBA64(at)), "16 bits a channel, allowed are 8"},
	} {
		_, err := images.Decode(c.data)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	_, err := images.List(dir)
	require.ErrorContains(t, err, "no PNG files")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	for _, name := range []string{"b.png", "a/c.PNG", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), encode(t, image.NewGray(image.Rect(0, 0, 1, 1))), 0o644))
	}
	names, err := images.List(dir)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "a", "c.PNG"), filepath.Join(dir, "b.png")}, names)
	m, err := images.Read(names[0])
	require.NoError(t, err)
	require.Equal(t, 1, m.Width)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d.jpeg"), nil, 0o644))
	_, err = images.List(dir)
	require.ErrorContains(t, err, "d.jpeg: a jpeg image, allowed is PNG")
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
