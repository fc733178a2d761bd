package inception

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// conv is a convolution with its batch norm and ReLU. The norm uses stored statistics, so it is an
// affine map of each output channel, which is folded into weights and bias.
type conv struct {
	Weight weights.Param `weight:"conv.weight"` // [out], like the norm's other parameters
	Gamma  weights.Param `weight:"bn.weight"`   // [out], as the others of the norm
	Beta   weights.Param `weight:"bn.bias"`
	Mean   weights.Param `weight:"bn.running_mean"`
	Var    weights.Param `weight:"bn.running_var"`

	stride, padH, padW int
	w                  backend.Matrix
	bias               *tensor.Dense
}

const normEps = 1e-3

// newConv returns a layer's convolution with these numbers of channels.
func newConv(out, in int, l layer) *conv {
	n := func() weights.Param { return weights.Param{Shape: []int{out}} }
	c := &conv{Weight: weights.Param{Shape: []int{out, in, l.height, l.width}}, Gamma: n(), Beta: n(),
		Mean: n(), Var: n(), stride: max(l.stride, 1)}
	if !l.bare {
		c.padH, c.padW = l.height/2, l.width/2
	}
	return c
}

func (c *conv) out() int { return c.Weight.Shape[0] }

// load packs the weights [out, height*width*in].
func (c *conv) load(l *nn.Loader) {
	gamma, beta, mean, variance := l.Floats(&c.Gamma), l.Floats(&c.Beta), l.Floats(&c.Mean),
		l.Floats(&c.Var)
	out, in, taps := c.Weight.Shape[0], c.Weight.Shape[1], c.Weight.Shape[2]*c.Weight.Shape[3]
	bias := make([]float32, out)
	for i, v := range variance {
		if v < 0 {
			l.Check(fmt.Errorf("tensor %q: element %d is %v, want variances from 0", c.Var.Name, i, v))
			return
		}
		scale := float64(gamma[i]) / math.Sqrt(float64(v)+normEps)
		gamma[i], bias[i] = float32(scale), float32(float64(beta[i])-float64(mean[i])*scale)
	}
	w := l.Floats(&c.Weight)
	c.w = l.Backend.Pack(out, taps*in, l.Precision, func(i int, dst []float32) {
		for j := range in {
			for t := range taps {
				dst[t*in+j] = w[(i*in+j)*taps+t] * gamma[i]
			}
		}
	})
	c.bias = l.Vector(bias)
}

// frame is an activation [batch, height, width, channels].
type frame struct {
	data                    *tensor.Dense
	height, width, channels int
}

// apply writes the convolution of x to dst, whose pixels have `stride` channels, from channel
// `offset` on.
func (c *conv) apply(b backend.Backend, dst *tensor.Dense, x frame, batch, stride,
	offset int) frame {
	s := backend.ConvShape{Batch: batch, Height: x.height, Width: x.width, In: x.channels,
		Out: c.out(),
		KH:  c.Weight.Shape[2], KW: c.Weight.Shape[3], Stride: c.stride, PadH: c.padH, PadW: c.padW,
		DstStride: stride, DstOffset: offset}
	b.Conv(dst, x.data, s, c.w, backend.ConvInput{}, backend.Epilogue{Bias: c.bias, Act: backend.ReLU})
	return frame{dst, s.OutHeight(), s.OutWidth(), stride}
}

// pool3 reduces windows of 3x3 pixels.
func pool3(b backend.Backend, dst *tensor.Dense, x frame, batch, step, pad, stride, offset int,
	kind backend.PoolKind) frame {
	s := backend.ConvShape{Batch: batch, Height: x.height, Width: x.width, In: x.channels,
		Out: x.channels,
		KH:  3, KW: 3, Stride: step, PadH: pad, PadW: pad, DstStride: stride, DstOffset: offset}
	b.Pool(dst, x.data, s, kind)
	return frame{dst, s.OutHeight(), s.OutWidth(), stride}
}
