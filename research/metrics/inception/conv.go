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
	Weight weights.Param `weight:"conv.weight"` // [out, in, height, width]
	Gamma  weights.Param `weight:"bn.weight"`   // [out], as the others of the norm
	Beta   weights.Param `weight:"bn.bias"`
	Mean   weights.Param `weight:"bn.running_mean"`
	Var    weights.Param `weight:"bn.running_var"`

	stride int
	padH   int
	padW   int
	w      backend.Matrix
	bias   *tensor.Dense
}

const normEps = 1e-3

// newConv returns a layer's convolution with these numbers of channels.
func newConv(out, in int, l layer) *conv {
	channels := func() weights.Param { return weights.Param{Shape: []int{out}} }
	c := &conv{
		Weight: weights.Param{Shape: []int{out, in, l.height, l.width}},
		Gamma:  channels(),
		Beta:   channels(),
		Mean:   channels(),
		Var:    channels(),
		stride: max(l.stride, 1),
	}
	if !l.noPadding {
		c.padH = l.height / 2
		c.padW = l.width / 2
	}
	return c
}

func (c *conv) outChannels() int { return c.Weight.Shape[0] }

// loadWeights packs the weights [out, height*width*in] with the norm folded into them.
func (c *conv) loadWeights(l *nn.Loader) {
	gamma := l.Floats(&c.Gamma)
	beta := l.Floats(&c.Beta)
	mean := l.Floats(&c.Mean)
	variance := l.Floats(&c.Var)
	out := c.Weight.Shape[0]
	in := c.Weight.Shape[1]
	taps := c.Weight.Shape[2] * c.Weight.Shape[3]
	bias := make([]float32, out)
	for i, v := range variance {
		if v < 0 {
			l.Check(fmt.Errorf("tensor %q: element %d is %v, want variances from 0", c.Var.Name, i, v))
			return
		}
		scale := float64(gamma[i]) / math.Sqrt(float64(v)+normEps)
		gamma[i] = float32(scale)
		bias[i] = float32(float64(beta[i]) - float64(mean[i])*scale)
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
	data     *tensor.Dense
	height   int
	width    int
	channels int
}

// apply writes the convolution of x to dst, whose pixels have `stride` channels, from channel
// `offset` on.
func (c *conv) apply(b backend.Backend, dst *tensor.Dense, x frame, batch, stride,
	offset int) frame {
	s := backend.ConvShape{
		Batch:     batch,
		Height:    x.height,
		Width:     x.width,
		In:        x.channels,
		Out:       c.outChannels(),
		KH:        c.Weight.Shape[2],
		KW:        c.Weight.Shape[3],
		Stride:    c.stride,
		PadH:      c.padH,
		PadW:      c.padW,
		DstStride: stride,
		DstOffset: offset,
	}
	b.Conv(dst, x.data, s, c.w, backend.ConvInput{}, backend.Epilogue{Bias: c.bias, Act: backend.ReLU})
	return frame{dst, s.OutHeight(), s.OutWidth(), stride}
}

// poolWindows reduces windows of 3x3 pixels.
func poolWindows(b backend.Backend, dst *tensor.Dense, x frame, batch, step, pad, stride,
	offset int,
	kind backend.PoolKind) frame {
	s := backend.ConvShape{
		Batch:     batch,
		Height:    x.height,
		Width:     x.width,
		In:        x.channels,
		Out:       x.channels,
		KH:        3,
		KW:        3,
		Stride:    step,
		PadH:      pad,
		PadW:      pad,
		DstStride: stride,
		DstOffset: offset,
	}
	b.Pool(dst, x.data, s, kind)
	return frame{dst, s.OutHeight(), s.OutWidth(), stride}
}
