package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// poolJob is one call of Pool; an item is a row of the result.
type poolJob struct {
	ops            vec.Ops
	dst, x         []float32
	s              backend.ConvShape
	kind           backend.PoolKind
	stride, offset int
	item           func(worker, i int)
}

// Pool takes the mean or the maximum of the window's pixels inside the image.
func (v *vectors) Pool(dst, x *tensor.Dense, s backend.ConvShape, kind backend.PoolKind) {
	backend.CheckPool(dst, x, s, kind)
	j := v.pools.take(func(j *poolJob) { j.ops, j.item = v.ops, j.row })
	j.dst, j.x, j.s, j.kind = data(dst), data(x), s, kind
	j.stride, j.offset = backend.ConvTarget(s)
	v.pool.For(s.Batch*s.OutHeight(), j.item)
	j.dst, j.x = nil, nil
	v.pools.put(j)
}

func (j *poolJob) row(_, i int) {
	s := j.s
	height, width, step, up := s.OutHeight(), s.OutWidth(), max(s.Stride, 1), s.UpsampleFactor()
	image, top := i/height, i%height*step-s.PadH
	h0, h1 := max(top, 0), min(top+s.KH, up*s.Height)
	for x := range width {
		left := x*step - s.PadW
		w0, w1 := max(left, 0), min(left+s.KW, up*s.Width)
		dst := j.dst[(i*width+x)*j.stride+j.offset:][:s.In]
		start := float32(0)
		if j.kind == backend.Max {
			start = float32(math.Inf(-1))
		}
		for c := range dst {
			dst[c] = start
		}
		for h := h0; h < h1; h++ {
			for w := w0; w < w1; w++ {
				pixel := j.x[((image*s.Height+h/up)*s.Width+w/up)*s.In:][:s.In]
				if j.kind == backend.Max {
					j.ops.Maximum(dst, pixel)
				} else {
					j.ops.Add(dst, pixel)
				}
			}
		}
		if j.kind == backend.Mean {
			inverse := 1 / float32((h1-h0)*(w1-w0))
			for c := range dst {
				dst[c] *= inverse
			}
		}
	}
}
