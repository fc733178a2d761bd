package images

import "image"

// Enlarge returns a picture in which each pixel of p is a square of n x n pixels. n of 1 is p
// itself.
func Enlarge(p *image.NRGBA, n int) *image.NRGBA {
	if n == 1 {
		return p
	}
	width, height := p.Rect.Dx(), p.Rect.Dy()
	out := image.NewNRGBA(image.Rect(0, 0, n*width, n*height))
	for y := range n * height {
		from, to := p.Pix[y/n*p.Stride:], out.Pix[y*out.Stride:]
		for x := range n * width {
			copy(to[4*x:4*x+4], from[x/n*4:])
		}
	}
	return out
}
