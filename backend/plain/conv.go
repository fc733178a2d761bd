package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Conv is a convolution: each window becomes a row, with zeros outside the image, which is
// multiplied as in Linear.
func (d *Device) Conv(dst, x *tensor.Dense, s backend.ConvShape, w backend.Matrix,
	in backend.ConvInput, e backend.Epilogue) {
	backend.CheckConv(dst, x, s, w, in, e)
	stride, offset := backend.ConvTarget(s)
	window := make([]float32, s.KH*s.KW*s.In)
	y := dst.Float32s()
	visitWindows(s, func(b, pixel int, source func(kh, kw int) int) {
		for t := range s.KH * s.KW {
			p := source(t/s.KW, t%s.KW)
			for c := range s.In {
				window[t*s.In+c] = 0
				if p >= 0 {
					window[t*s.In+c] = mapInput(in, b, c, s.In, x.Float32s()[p*s.In+c])
				}
			}
		}
		storeRow(y[pixel*stride+offset:], multiplyRow(w, window), nil, e)
	})
}

// mapInput returns v, a value of channel c of image b, after ConvInput's map, rounded to float32.
func mapInput(in backend.ConvInput, b, c, channels int, v float32) float32 {
	y := float64(v)*valueOr(in.Scale, b*channels+c, 1) + valueOr(in.Shift, b*channels+c, 0)
	if in.SiLU {
		y = applyActivation(y, backend.SiLU)
	}
	return float32(y)
}

// visitWindows visits the pixels of the result. pixel is a pixel's index; source is the index of
// x's pixel under a tap, -1 outside the image.
func visitWindows(s backend.ConvShape, visit func(b, pixel int, source func(kh, kw int) int)) {
	height := s.OutHeight()
	width := s.OutWidth()
	stride := max(s.Stride, 1)
	factor := s.UpsampleFactor()
	for pixel := range s.Batch * height * width {
		b := pixel / (height * width)
		y := pixel / width % height
		x := pixel % width
		visit(b, pixel, func(kh, kw int) int {
			h := y*stride - s.PadH + kh
			w := x*stride - s.PadW + kw
			if h < 0 || w < 0 || h >= factor*s.Height || w >= factor*s.Width {
				return -1
			}
			return (b*s.Height+h/factor)*s.Width + w/factor
		})
	}
}

// Pool takes the mean or the maximum of the window's pixels inside the image.
func (d *Device) Pool(dst, x *tensor.Dense, s backend.ConvShape, kind backend.PoolKind) {
	backend.CheckPool(dst, x, s, kind)
	stride, offset := backend.ConvTarget(s)
	visitWindows(s, func(b, pixel int, source func(kh, kw int) int) {
		for c := range s.In {
			var n, sum float64
			result := math.Inf(-1)
			for t := range s.KH * s.KW {
				p := source(t/s.KW, t%s.KW)
				if p < 0 {
					continue
				}
				v := float64(x.Float32s()[p*s.In+c])
				n++
				sum += v
				result = max(result, v)
			}
			if kind == backend.Mean {
				result = sum / n
			}
			dst.Float32s()[pixel*stride+offset+c] = float32(result)
		}
	})
}
