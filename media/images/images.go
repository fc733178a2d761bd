// Package images reads pictures, PNG and JPEG: for measurement as eight-bit RGB, for inpainting
// with their alpha, fitted to a model's size.
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
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
)

// Image is RGB, eight bits a channel: Pix is [Height, Width, 3].
type Image struct {
	Width  int
	Height int
	Pix    []byte
}

// MaxPixels is the largest image in pixels; it is checked before memory is allocated.
const MaxPixels = 1 << 25

// maxFile is the largest file that is read, in bytes. Files of MaxPixels are hardly ever larger.
const maxFile = 4 * MaxPixels

// signatures are the first bytes of files in other formats.
var signatures = []struct{ format, magic string }{
	{"GIF", "GIF8"}, {"WebP", "RIFF"}, {"BMP", "BM"}, {"TIFF", "II*\x00"}, {"TIFF", "MM\x00*"},
}

// Decode reads a PNG or JPEG as Pillow's convert("RGB") does, which torch-fidelity uses: grey
// becomes equal channels, a palette its colours, alpha is dropped, and of 16 bits the upper 8 are
// taken, except that grey of 16 bits is clipped at 255. JPEG's artefacts alone shift a Frechet
// distance by points (Parmar et al., "On aliased resizing and surprising subtleties in GAN
// evaluation", 2022), so images to be compared should have been saved the same way.
func Decode(data []byte) (*Image, error) {
	if bytes.HasPrefix(data, []byte(jpegMagic)) {
		return decodeJPEG(data)
	}
	picture, err := decodePNG(data)
	if err != nil {
		return nil, err
	}
	if data[24] == 16 && data[25] == 0 { // bits and kind in the header: grey
		return clipGray16(picture), nil
	}
	return fromImage(picture), nil
}

// The first bytes of the formats that are read.
const (
	jpegMagic = "\xff\xd8\xff"
	pngMagic  = "\x89PNG\r\n\x1a\n"
)

// decodePNG decodes a PNG within the limits; its error names the format of other data.
func decodePNG(data []byte) (image.Image, error) {
	if !bytes.HasPrefix(data, []byte(pngMagic)) {
		for _, s := range signatures {
			if bytes.HasPrefix(data, []byte(s.magic)) {
				return nil, fmt.Errorf("a %s image, want PNG or JPEG", s.format)
			}
		}
		return nil, errors.New("not an image, want PNG or JPEG")
	}
	return decodeWithin(data, "PNG", png.DecodeConfig, png.Decode)
}

// decodeWithin decodes a picture of a format, unless its header says that it is too large: a small
// file can claim any size, and memory for it would be allocated first.
func decodeWithin(data []byte, format string, decodeHeader func(io.Reader) (image.Config, error),
	decode func(io.Reader) (image.Image, error)) (image.Image, error) {
	c, err := decodeHeader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a damaged %s: %w", format, err)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > MaxPixels/c.Height {
		return nil, fmt.Errorf("%d x %d pixels, want 1 to %d in all", c.Width, c.Height, MaxPixels)
	}
	picture, err := decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a damaged %s: %w", format, err)
	}
	return picture, nil
}

// clipGray16 converts grey of 16 bits, with or without a transparent level, as Pillow does:
// values above 255 are white.
func clipGray16(grey image.Image) *Image {
	size := grey.Bounds()
	m := &Image{Width: size.Dx(), Height: size.Dy(), Pix: make([]byte, 0, 3*size.Dx()*size.Dy())}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			level := color.NRGBA64Model.Convert(grey.At(x, y)).(color.NRGBA64).R
			v := byte(min(level, 255))
			m.Pix = append(m.Pix, v, v, v)
		}
	}
	return m
}

// fromImage takes the red, green and blue of each pixel, not multiplied by alpha.
func fromImage(picture image.Image) *Image {
	size := picture.Bounds()
	m := &Image{Width: size.Dx(), Height: size.Dy(), Pix: make([]byte, 0, 3*size.Dx()*size.Dy())}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			if p, ok := picture.(*image.NRGBA64); ok { // the colour of transparent pixels counts
				c := p.NRGBA64At(x, y)
				m.Pix = append(m.Pix, byte(c.R>>8), byte(c.G>>8), byte(c.B>>8))
				continue
			}
			c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)
			m.Pix = append(m.Pix, c.R, c.G, c.B)
		}
	}
	return m
}

// Read reads the PNG or JPEG file at name as Decode does.
func Read(name string) (*Image, error) { return readAs(name, Decode) }

// ReadPicture reads the PNG or JPEG file at name with everything in it, such as alpha, and turned
// as the file's EXIF data has it.
func ReadPicture(name string) (image.Image, error) {
	return readAs(name, func(data []byte) (image.Image, error) {
		picture, err := decodeWithAlpha(data)
		if err != nil {
			return nil, err
		}
		return turnUpright(picture, orientation(data)), nil
	})
}

// decodeWithAlpha decodes a PNG with its alpha, or a JPEG, which has none.
func decodeWithAlpha(data []byte) (image.Image, error) {
	if !bytes.HasPrefix(data, []byte(jpegMagic)) {
		return decodePNG(data)
	}
	m, err := decodeJPEG(data)
	if err != nil {
		return nil, err
	}
	return m.NRGBA(), nil
}

// readAs decodes a file; an error of its content names it.
func readAs[T any](name string, decode func(data []byte) (T, error)) (T, error) {
	data, err := atomicfile.ReadBounded(name, maxFile)
	if err != nil {
		var zero T
		return zero, err
	}
	value, err := decode(data)
	if err != nil {
		return value, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// unreadable are extensions of images that cannot be read: a folder with such files is refused,
// so that it is not measured in part.
var unreadable = []string{".gif", ".webp", ".bmp", ".tif", ".tiff"}

// List returns the PNG and JPEG files in a directory and below it, sorted by name. Pictures of
// other formats are an error, so that none is left out unseen, and a directory without pictures.
func List(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch ext := strings.ToLower(filepath.Ext(name)); {
		case d.IsDir():
		case ext == ".png", ext == ".jpg", ext == ".jpeg":
			names = append(names, name)
		case slices.Contains(unreadable, ext):
			return fmt.Errorf("%s: a %s image, want PNG or JPEG", name, ext[1:])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no PNG or JPEG files", dir)
	}
	slices.Sort(names)
	return names, nil
}
