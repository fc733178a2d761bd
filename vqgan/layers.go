package vqgan

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// conv is a convolution with square windows and padding that keeps the size.
type conv struct {
	Weight weights.Param `weight:"weight"` // [out, in, k, k]
	Bias   weights.Param `weight:"bias"`   // [out], or absent

	w backend.Matrix
	b *tensor.Dense
}

func newConv(out, in, k int) conv {
	return conv{Weight: weights.Param{Shape: []int{out, in, k, k}}, Bias: weights.Param{Shape: []int{out}}}
}

func newConvNoBias(out, in, k int) conv {
	return conv{Weight: weights.Param{Shape: []int{out, in, k, k}}}
}

func (c *conv) load(l *nn.Loader) { c.pack(l, l.Precision, false) }

// pack lays out the weights [out, k*k*in], the input channel fastest. identity adds the
// input to the output of a 1x1 convolution.
func (c *conv) pack(l *nn.Loader, as backend.Precision, identity bool) {
	out, in, taps := c.Weight.Shape[0], c.Weight.Shape[1], c.Weight.Shape[2]*c.Weight.Shape[3]
	w := l.Floats(&c.Weight)
	c.w = l.Backend.Pack(out, taps*in, as, func(i int, dst []float32) {
		for j := range in {
			for t := range taps {
				dst[t*in+j] = w[(i*in+j)*taps+t]
			}
		}
		if identity {
			dst[i]++
		}
	})
	c.b = l.Vector(l.Floats(&c.Bias))
}

// norm is a group norm.
type norm struct {
	Weight weights.Param `weight:"weight"` // [channels]
	Bias   weights.Param `weight:"bias"`

	affine backend.Norm
}

func newNorm(channels int) norm {
	return norm{Weight: weights.Param{Shape: []int{channels}}, Bias: weights.Param{Shape: []int{channels}}}
}

func (n *norm) load(l *nn.Loader) {
	n.affine = backend.Norm{Scale: l.Vector(l.Floats(&n.Weight)), Shift: l.Vector(l.Floats(&n.Bias)), Eps: 1e-6}
}

// resBlock is norm, swish, 3x3, norm, swish, 3x3, added to the input. Where the channels change,
// the 1x1 shortcut is applied to the block's own output h, and h is what it is added to:
// h + shortcut(h) is one product with the identity in its weights.
type resBlock struct {
	Norm1    norm `weight:"norm1"`
	Conv1    conv `weight:"conv1"`
	Norm2    norm `weight:"norm2"`
	Conv2    conv `weight:"conv2"`
	Shortcut conv `weight:"nin_shortcut"`
}

func newResBlock(in, out int) *resBlock {
	r := &resBlock{Norm1: newNorm(in), Conv1: newConvNoBias(out, in, 3), Norm2: newNorm(out), Conv2: newConvNoBias(out, out, 3)}
	if in != out {
		r.Shortcut = newConvNoBias(out, out, 1)
	}
	return r
}

func (r *resBlock) load(l *nn.Loader) {
	r.Norm1.load(l)
	r.Conv1.load(l)
	r.Norm2.load(l)
	r.Conv2.load(l)
	if r.Shortcut.Weight.Shape != nil {
		// Beside the identity's ones a coarse precision would lose the shortcut's own weights.
		r.Shortcut.pack(l, backend.F32, true)
	}
}

// apply replaces the canvas by the block's output.
func (r *resBlock) apply(v *canvas) {
	v.run(v.h, v.x, &r.Conv1, v.normed(v.x, &r.Norm1), backend.Epilogue{})
	in := v.normed(v.h, &r.Norm2)
	if r.Shortcut.Weight.Shape == nil {
		v.run(v.x, v.h, &r.Conv2, in, backend.Epilogue{Add: true})
		return
	}
	v.run(v.x, v.h, &r.Conv2, in, backend.Epilogue{}) // over the input, which nothing needs any more
	v.step(&r.Shortcut, nil)
}

// canvas is the one image in work, NHWC. Two buffers are enough for the whole network.
type canvas struct {
	b             backend.Backend
	x, h          *tensor.Dense // [1, largest activation]
	height, width int
	maps          map[int]*affine // by channels
}

// affine is what a group norm is for one image.
type affine struct{ scale, shift *tensor.Dense } // [1, channels]

// normed is the norm of x followed by swish, to be applied while x is read.
func (v *canvas) normed(x *tensor.Dense, n *norm) backend.ConvInput {
	c := n.Weight.Shape[0]
	m := v.maps[c]
	if m == nil {
		m = &affine{v.b.New(1, c), v.b.New(1, c)}
		v.maps[c] = m
	}
	v.b.GroupNorm(m.scale, m.shift, x, 1, v.height*v.width, c, groups, n.affine)
	return backend.ConvInput{Scale: m.scale, Shift: m.shift, SiLU: true}
}

func (v *canvas) shape(c *conv) backend.ConvShape {
	k := c.Weight.Shape[2]
	return backend.ConvShape{Batch: 1, Height: v.height, Width: v.width, In: c.Weight.Shape[1], Out: c.Weight.Shape[0],
		KH: k, KW: k, PadH: k / 2, PadW: k / 2}
}

// run writes the convolution of x to dst.
func (v *canvas) run(dst, x *tensor.Dense, c *conv, in backend.ConvInput, e backend.Epilogue) {
	e.Bias = c.b
	v.b.Conv(dst, x, v.shape(c), c.w, in, e)
}

// step replaces the image by its convolution, after the norm and swish unless n is nil.
func (v *canvas) step(c *conv, n *norm) {
	var in backend.ConvInput
	if n != nil {
		in = v.normed(v.x, n)
	}
	v.run(v.h, v.x, c, in, backend.Epilogue{})
	v.x, v.h = v.h, v.x
}

// double repeats every pixel twice both ways, then convolves.
func (v *canvas) double(c *conv) {
	s := v.shape(c)
	s.Up = true
	v.b.Conv(v.h, v.x, s, c.w, backend.ConvInput{}, backend.Epilogue{Bias: c.b})
	v.x, v.h = v.h, v.x
	v.height, v.width = s.OutHeight(), s.OutWidth()
}

// halve takes the mean of 2x2 pixels.
func (v *canvas) halve(channels int) {
	s := backend.ConvShape{Batch: 1, Height: v.height, Width: v.width, In: channels, Out: channels, KH: 2, KW: 2, Stride: 2}
	v.b.Pool(v.h, v.x, s, backend.Mean)
	v.x, v.h = v.h, v.x
	v.height, v.width = s.OutHeight(), s.OutWidth()
}
