package images

import "image"

// Enlarge returns p with each pixel enlarged to n x n pixels; for n = 1 it returns p itself.
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
