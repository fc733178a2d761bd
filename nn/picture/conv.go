package picture

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// Conv is a convolution with square windows and padding that keeps the image's size.
type Conv struct {
	Weight weights.Param `weight:"weight"` // [out, in, k, k]
	Bias   weights.Param `weight:"bias"`   // [out], or absent

	w backend.Matrix // [out, k*k*in], the input channel fastest
	b *tensor.Dense  // [out], nil for none
}

// NewConv returns a convolution of k x k windows with a bias.
func NewConv(out, in, k int) Conv {
	return Conv{Weight: weights.Param{Shape: []int{out, in, k, k}},
		Bias: weights.Param{Shape: []int{out}}}
}

// NewConvNoBias returns a convolution without a bias.
func NewConvNoBias(out, in, k int) Conv {
	return Conv{Weight: weights.Param{Shape: []int{out, in, k, k}}}
}

// Exists reports whether the network has this layer.
func (c *Conv) Exists() bool { return c.Weight.Shape != nil }

// Load packs the layer.
func (c *Conv) Load(l *nn.Loader) { c.Pack(l, l.Precision, 0) }

// Pack packs the weights as [out, k*k*in], the input channel fastest, in a precision. diagonal is
// added to the weight of output i from input i of a 1x1 convolution: 1 adds the input itself.
func (c *Conv) Pack(l *nn.Loader, precision backend.Precision, diagonal float32) {
	out := c.Weight.Shape[0]
	in := c.Weight.Shape[1]
	taps := c.Weight.Shape[2] * c.Weight.Shape[3]
	w := l.Floats(&c.Weight)
	c.w = l.Backend.Pack(out, taps*in, precision, func(i int, dst []float32) {
		nn.MoveTapsFirst(dst, w[i*in*taps:], in, taps)
		if diagonal != 0 {
			dst[i] += diagonal
		}
	})
	c.b = l.Vector(l.Floats(&c.Bias))
}

// Matrix returns the packed weights [out, k*k*in] and the bias [out], nil if there is none.
func (c *Conv) Matrix() (w backend.Matrix, bias *tensor.Dense) { return c.w, c.b }

// ApplyPatches computes dst [height/k * width/k, out] from x [height, width, in]: the convolution
// with windows that do not overlap.
func (c *Conv) ApplyPatches(b backend.Backend, dst, x *tensor.Dense, height, width int) {
	k := c.Weight.Shape[2]
	b.Conv(dst, x, backend.ConvShape{
		Batch:  1,
		Height: height,
		Width:  width,
		In:     c.Weight.Shape[1],
		Out:    c.Weight.Shape[0],
		KH:     k,
		KW:     k,
		Stride: k,
	}, c.w, backend.ConvInput{},
		backend.Epilogue{Bias: c.b})
}

// Downsampling is a 3x3 convolution of stride 2 that pads one row of zeros below and one column on
// the right, as the autoencoders of latent diffusion do (Rombach et al. 2022, "High-resolution
// image synthesis with latent diffusion models").
type Downsampling struct {
	Conv `weight:""`
}

// NewDownsampling returns the layer for images with `channels` channels.
func NewDownsampling(channels int) Downsampling {
	return Downsampling{NewConv(channels, channels, 3)}
}

// Load packs the layer as a convolution with 4x4 windows whose first row and column are zero. With
// padding 1 and stride 2 it equals the 3x3 one of stride 2 that pads only below and on the right.
func (c *Downsampling) Load(l *nn.Loader) {
	out := c.Weight.Shape[0]
	in := c.Weight.Shape[1]
	w := l.Floats(&c.Weight)
	c.w = l.Backend.Pack(out, 16*in, l.Precision, func(i int, dst []float32) {
		clear(dst)
		for j := range in {
			for t := range 9 {
				dst[((t/3+1)*4+t%3+1)*in+j] = w[(i*in+j)*9+t]
			}
		}
	})
	c.b = l.Vector(l.Floats(&c.Bias))
}

// Upsampling is a 3x3 convolution of the image after every pixel is repeated twice in both
// directions.
type Upsampling struct {
	Conv `weight:""`

	folded [4]backend.Matrix // for a backend.Doubler, in place of Conv's matrix
}

// NewUpsampling returns the layer for images with `channels` channels.
func NewUpsampling(channels int) Upsampling {
	return Upsampling{Conv: NewConv(channels, channels, 3)}
}

// Load packs the layer.
func (c *Upsampling) Load(l *nn.Loader) {
	if _, ok := l.Backend.(backend.Doubler); !ok {
		c.Conv.Load(l)
		return
	}
	out := c.Weight.Shape[0]
	in := c.Weight.Shape[1]
	w := l.Floats(&c.Weight)
	for phase := range c.folded {
		c.folded[phase] = l.Backend.Pack(out, 4*in, l.Precision, func(i int, dst []float32) {
			row := make([]float32, 9*in)
			nn.MoveTapsFirst(row, w[i*in*9:], in, 9)
			backend.FoldDoubled(dst, row, in, phase)
		})
	}
	c.b = l.Vector(l.Floats(&c.Bias))
}

// Groups is the number of groups of every group norm.
const Groups = 32

// GroupNorm normalises the channels of an image in 32 groups.
type GroupNorm struct {
	Weight weights.Param `weight:"weight"` // [channels]
	Bias   weights.Param `weight:"bias"`

	affine backend.Norm
}

// NewGroupNorm returns a norm of `channels` channels.
func NewGroupNorm(channels int) GroupNorm {
	return GroupNorm{Weight: weights.Param{Shape: []int{channels}},
		Bias: weights.Param{Shape: []int{channels}}}
}

// Load copies the norm to the device.
func (n *GroupNorm) Load(l *nn.Loader) {
	n.affine = backend.Norm{
		Scale: l.Vector(l.Floats(&n.Weight)),
		Shift: l.Vector(l.Floats(&n.Bias)),
		Eps:   1e-6,
	}
}
