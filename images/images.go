// Package images reads pictures for measurement: eight-bit RGB, from PNG files alone.
package images

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Image is RGB, eight bits a channel: Pix is [Height, Width, 3].
type Image struct {
	Width, Height int
	Pix           []byte
}

// MaxPixels bounds an image, in pixels, before memory is taken for it.
const MaxPixels = 1 << 26

// signatures are how files of other formats begin.
var signatures = []struct{ format, magic string }{
	{"JPEG", "\xff\xd8\xff"}, {"GIF", "GIF8"}, {"WebP", "RIFF"}, {"BMP", "BM"}, {"TIFF", "II*\x00"}, {"TIFF", "MM\x00*"},
}

// Decode reads a PNG. Grey becomes equal channels, a palette its colours, and alpha is dropped,
// all as Pillow's convert("RGB"). Other formats are refused: JPEG artefacts alone shift a Frechet
// distance by points (Parmar et al., "On aliased resizing and surprising subtleties in GAN
// evaluation", 2022), so a comparison must not mix them in.
func Decode(data []byte) (*Image, error) {
	if !bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) {
		for _, s := range signatures {
			if bytes.HasPrefix(data, []byte(s.magic)) {
				return nil, fmt.Errorf("a %s image, allowed is PNG: compression and other decoders shift the features", s.format)
			}
		}
		return nil, errors.New("not an image, allowed is PNG")
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a damaged PNG: %w", err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > MaxPixels/config.Height {
		return nil, fmt.Errorf("%d x %d pixels, allowed are 1 to %d in all", config.Width, config.Height, MaxPixels)
	}
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model, color.Gray16Model:
		return nil, errors.New("16 bits a channel, allowed are 8")
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a damaged PNG: %w", err)
	}
	return fromImage(picture), nil
}

// fromImage takes the red, green and blue of each pixel, not multiplied by alpha.
func fromImage(picture image.Image) *Image {
	size := picture.Bounds()
	m := &Image{Width: size.Dx(), Height: size.Dy(), Pix: make([]byte, 0, 3*size.Dx()*size.Dy())}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)
			m.Pix = append(m.Pix, c.R, c.G, c.B)
		}
	}
	return m
}

// Read reads the PNG file at name.
func Read(name string) (*Image, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 4 * MaxPixels // bytes; a PNG of that many pixels is hardly ever larger
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s: more than %d bytes", name, most)
	}
	m, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// extensions of images that are not PNG: a folder that has them is refused rather than
// measured in part.
var extensions = []string{".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"}

// List returns the PNG files of a directory and those below it, in the order of their names.
func List(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch ext := strings.ToLower(filepath.Ext(name)); {
		case d.IsDir():
		case ext == ".png":
			names = append(names, name)
		case slices.Contains(extensions, ext):
			return fmt.Errorf("%s: a %s image, allowed is PNG: compression and other decoders shift the features", name, ext[1:])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no PNG files", dir)
	}
	slices.Sort(names)
	return names, nil
}
