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
	eachWindow(s, func(b, pixel int, source func(kh, kw int) int) {
		for t := range s.KH * s.KW {
			p := source(t/s.KW, t%s.KW)
			for c := range s.In {
				window[t*s.In+c] = 0
				if p >= 0 {
					window[t*s.In+c] = input(in, b, c, s.In, x.Float32s()[p*s.In+c])
				}
			}
		}
		store(y[pixel*stride+offset:], product(w, window), nil, e)
	})
}

// input returns channel c of image b after ConvInput's map.
func input(in backend.ConvInput, b, c, channels int, v float32) float32 {
	y := float64(v)*at(in.Scale, b*channels+c, 1) + at(in.Shift, b*channels+c, 0)
	if in.SiLU {
		y = activate(y, backend.SiLU)
	}
	return float32(y)
}

// eachWindow visits the pixels of the result. pixel is a pixel's index; source is the index of x's
// pixel under a tap, -1 outside the image.
func eachWindow(s backend.ConvShape, visit func(b, pixel int, source func(kh, kw int) int)) {
	oh, ow, stride, up := s.OutHeight(), s.OutWidth(), max(s.Stride, 1), s.UpsampleFactor()
	for pixel := range s.Batch * oh * ow {
		b, y, x := pixel/(oh*ow), pixel/ow%oh, pixel%ow
		visit(b, pixel, func(kh, kw int) int {
			h, w := y*stride-s.PadH+kh, x*stride-s.PadW+kw
			if h < 0 || w < 0 || h >= up*s.Height || w >= up*s.Width {
				return -1
			}
			return (b*s.Height+h/up)*s.Width + w/up
		})
	}
}

// Pool takes the mean or the maximum of the window's pixels inside the image.
func (d *Device) Pool(dst, x *tensor.Dense, s backend.ConvShape, kind backend.PoolKind) {
	backend.CheckPool(dst, x, s, kind)
	stride, offset := backend.ConvTarget(s)
	eachWindow(s, func(b, pixel int, source func(kh, kw int) int) {
		for c := range s.In {
			var n, sum float64
			top := math.Inf(-1)
			for t := range s.KH * s.KW {
				if p := source(t/s.KW, t%s.KW); p >= 0 {
					v := float64(x.Float32s()[p*s.In+c])
					n, sum, top = n+1, sum+v, max(top, v)
				}
			}
			if kind == backend.Mean {
				top = sum / n
			}
			dst.Float32s()[pixel*stride+offset+c] = float32(top)
		}
	})
}
