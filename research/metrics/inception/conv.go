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

func newConv(out, in, height, width int) conv {
	n := func() weights.Param { return weights.Param{Shape: []int{out}} }
	return conv{Weight: weights.Param{Shape: []int{out, in, height, width}}, Gamma: n(), Beta: n(),
		Mean: n(), Var: n(), stride: 1}
}

func (c conv) pad(height, width int) conv { c.padH, c.padW = height, width; return c }
func (c conv) by(stride int) conv         { c.stride = stride; return c }

func (c *conv) out() int { return c.Weight.Shape[0] }

// load packs the weights [out, height*width*in].
func (c *conv) load(l *nn.Loader) error {
	gamma, beta, mean, variance := l.Floats(&c.Gamma), l.Floats(&c.Beta), l.Floats(&c.Mean),
		l.Floats(&c.Var)
	out, in, taps := c.Weight.Shape[0], c.Weight.Shape[1], c.Weight.Shape[2]*c.Weight.Shape[3]
	bias := make([]float32, out)
	for i, v := range variance {
		if v < 0 {
			return fmt.Errorf("tensor %q: element %d is %v, want variances from 0", c.Var.Name, i, v)
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
	return nil
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

// stem replaces x by its convolution.
func (w *workspace) stem(b backend.Backend, c *conv) {
	w.swap(c.apply(b, w.spare[0], w.x, w.batch, c.out(), 0))
}

// shrink replaces x by the maximum of its windows at stride 2.
func (w *workspace) shrink(b backend.Backend) {
	w.swap(pool3(b, w.spare[0], w.x, w.batch, 2, 0, w.x.channels, 0, backend.Max))
}

// swap makes y, the first spare tensor, the activation.
func (w *workspace) swap(y frame) {
	w.spare[0] = w.x.data
	w.x = y
}

// join is the output of a block, to which its branches write side by side.
type join struct {
	w        *workspace
	channels int
	offset   int
	y        frame
}

func (w *workspace) join(channels int) *join { return &join{w: w, channels: channels} }

// inner runs layers of a branch and returns their output in one of the spare tensors.
func (j *join) inner(b backend.Backend, x frame, layers []*conv) frame {
	for _, c := range layers {
		to := j.w.spare[1]
		if x.data == to {
			to = j.w.spare[2]
		}
		x = c.apply(b, to, x, j.w.batch, c.out(), 0)
	}
	return x
}

func (j *join) put(b backend.Backend, x frame, c *conv) {
	j.y = c.apply(b, j.w.spare[0], x, j.w.batch, j.channels, j.offset)
	j.offset += c.out()
}

// branch is a chain of layers.
func (j *join) branch(b backend.Backend, layers ...*conv) {
	last := len(layers) - 1
	j.put(b, j.inner(b, j.w.x, layers[:last]), layers[last])
}

// fork is a chain of layers whose output two others read.
func (j *join) fork(b backend.Backend, left, right *conv, layers ...*conv) {
	x := j.inner(b, j.w.x, layers)
	j.put(b, x, left)
	j.put(b, x, right)
}

// pooled is a pool that keeps the size, and a layer.
func (j *join) pooled(b backend.Backend, kind backend.PoolKind, c *conv) {
	j.put(b, pool3(b, j.w.spare[1], j.w.x, j.w.batch, 1, 1, j.w.x.channels, 0, kind), c)
}

// shrunk is the maximum of windows at stride 2.
func (j *join) shrunk(b backend.Backend) {
	j.y = pool3(b, j.w.spare[0], j.w.x, j.w.batch, 2, 0, j.channels, j.offset, backend.Max)
	j.offset += j.w.x.channels
}

// done makes the block's output the activation.
func (j *join) done() { j.w.swap(j.y) }
