package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// poolJob is one call of Pool; an item is a row of the result.
type poolJob struct {
	ops    vec.Ops
	dst, x []float32
	shape  backend.ConvShape
	kind   backend.PoolKind

	// stride are the channels of a pixel of dst, offset is the first that is written.
	stride int
	offset int

	// item is poolRow, made once because a method value allocates.
	item func(worker, i int)
}

// Pool takes the mean or the maximum of the window's pixels inside the image.
func (v *vectors) Pool(dst, x *tensor.Dense, s backend.ConvShape, kind backend.PoolKind) {
	backend.CheckPool(dst, x, s, kind)
	j := v.pools.take(func(j *poolJob) {
		j.ops = v.ops
		j.item = j.poolRow
	})
	j.dst = data(dst)
	j.x = data(x)
	j.shape = s
	j.kind = kind
	j.stride, j.offset = backend.ConvTarget(s)
	v.pool.For(s.Batch*s.OutHeight(), j.item)

	// The job must not keep tensors alive.
	j.dst = nil
	j.x = nil
	v.pools.put(j)
}

// poolRow computes row i of the batch's result. Windows are cut at the image's edges, so that the
// mean is that of the pixels inside.
func (j *poolJob) poolRow(_, i int) {
	s := j.shape
	height := s.OutHeight()
	width := s.OutWidth()
	step := max(s.Stride, 1)
	factor := s.UpsampleFactor()
	image := i / height
	top := i%height*step - s.PadH // of the window, which may begin above the image
	h0 := max(top, 0)
	h1 := min(top+s.KH, factor*s.Height)
	for x := range width {
		left := x*step - s.PadW
		w0 := max(left, 0)
		w1 := min(left+s.KW, factor*s.Width)
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
				pixel := j.x[((image*s.Height+h/factor)*s.Width+w/factor)*s.In:][:s.In]
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
