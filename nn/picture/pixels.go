package picture

import (
	"fmt"
	"image"
	"image/color"
	"math"
)

// CheckDrawn returns an error for pixels [height, width, 3] that are not finite, as the output of a
// network.
func CheckDrawn(pixels []float32) error {
	for i, x := range pixels {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("pixel %d of the image is %v: the weights or the precision are unfit", i/3, x)
		}
	}
	return nil
}

// CheckFinite returns an error for pixels [height, width, 3] that are not finite.
func CheckFinite(pixels []float32) error {
	for i, x := range pixels {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("a colour of pixel %d is %v, want 0 to 1", i/3, x)
		}
	}
	return nil
}

// ToPlanes writes pixels [height, width, 3] to dst [3, height, width].
func ToPlanes(dst, pixels []float32) {
	n := len(pixels) / 3
	for p := range n {
		for c := range 3 {
			dst[c*n+p] = pixels[3*p+c]
		}
	}
}

// ToPixels writes planes [3, height, width] to dst [height, width, 3].
func ToPixels(dst, planes []float32) {
	n := len(dst) / 3
	for p := range n {
		for c := range 3 {
			dst[3*p+c] = planes[c*n+p]
		}
	}
}

// ToImage converts pixels [height, width, 3] to bytes: 255 times the colour plus offset, rounded
// down. Offset 0 truncates, as the programs of MAGE and TiTok do; 0.5 rounds.
func ToImage(pixels []float32, width, height int, offset float32) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i, x := range pixels {
		img.Pix[i/3*4+i%3] = uint8(min(max(x*255+offset, 0), 255))
	}
	for i := 3; i < len(img.Pix); i += 4 {
		img.Pix[i] = 255
	}
	return img
}

// FromImage writes the colours, 0 to 1, of an image of width x height pixels to dst [height, width,
// 3]; it ignores alpha.
func FromImage(dst []float32, img image.Image, width, height int) error {
	r := img.Bounds()
	if r.Dx() != width || r.Dy() != height {
		return fmt.Errorf("an image of %dx%d pixels, want %dx%d", r.Dx(), r.Dy(), width, height)
	}
	for y := range height {
		for x := range width {
			c := color.NRGBAModel.Convert(img.At(r.Min.X+x, r.Min.Y+y)).(color.NRGBA)
			for i, v := range [3]uint8{c.R, c.G, c.B} {
				dst[(y*width+x)*3+i] = float32(v) / 255
			}
		}
	}
	return nil
}
