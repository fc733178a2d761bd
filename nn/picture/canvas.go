// Package picture has the layers that image tokenizers share: convolutions and group norms over one
// image at a time, and the codebook between images and tokens.
package picture

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Canvas holds the current image, [height, width, channels]. Its buffers have the size of the
// largest activation, so memory does not grow with the batch.
type Canvas struct {
	Backend backend.Backend
	// [1, largest activation]: the image, and the output of the current layer
	X, H          *tensor.Dense
	Height, Width int

	most  int
	third *tensor.Dense   // [1, largest activation], for shortcuts with weights
	maps  map[int]*affine // by channels
	heads attentionBuffers
}

// affine is a group norm's map for one image.
type affine struct{ scale, shift *tensor.Dense } // [1, channels]

// NewCanvas allocates buffers of `most` values.
func NewCanvas(b backend.Backend, most int) *Canvas {
	return &Canvas{Backend: b, X: b.New(1, most), H: b.New(1, most), most: most,
		maps: map[int]*affine{}}
}

// Third returns a third buffer, allocated on first use.
func (v *Canvas) Third() *tensor.Dense {
	if v.third == nil {
		v.third = v.Backend.New(1, v.most)
	}
	return v.third
}

// Normed returns the norm of x followed by swish; it is applied when x is read.
func (v *Canvas) Normed(x *tensor.Dense, n *GroupNorm) backend.ConvInput {
	c := n.Weight.Shape[0]
	m := v.maps[c]
	if m == nil {
		m = &affine{v.Backend.New(1, c), v.Backend.New(1, c)}
		v.maps[c] = m
	}
	v.Backend.GroupNorm(m.scale, m.shift, x, 1, v.Height*v.Width, c, Groups, n.affine)
	return backend.ConvInput{Scale: m.scale, Shift: m.shift, SiLU: true}
}

func (v *Canvas) shape(c *Conv) backend.ConvShape {
	k := c.Weight.Shape[2]
	return backend.ConvShape{Batch: 1, Height: v.Height, Width: v.Width, In: c.Weight.Shape[1],
		Out: c.Weight.Shape[0],
		KH:  k, KW: k, PadH: k / 2, PadW: k / 2}
}

// Run writes the convolution of x to dst.
func (v *Canvas) Run(dst, x *tensor.Dense, c *Conv, in backend.ConvInput, e backend.Epilogue) {
	e.Bias = c.b
	v.Backend.Conv(dst, x, v.shape(c), c.w, in, e)
}

// Step replaces the image by its convolution, after norm and swish if n is not nil.
func (v *Canvas) Step(c *Conv, n *GroupNorm) {
	var in backend.ConvInput
	if n != nil {
		in = v.Normed(v.X, n)
	}
	v.Run(v.H, v.X, c, in, backend.Epilogue{})
	v.Swap()
}

// Swap makes H the image.
func (v *Canvas) Swap() { v.X, v.H = v.H, v.X }

// SwapThird makes the third buffer the image.
func (v *Canvas) SwapThird() { v.X, v.third = v.third, v.X }

// Double repeats every pixel twice in both directions, then convolves.
func (v *Canvas) Double(c *Doubling) {
	s, e := v.shape(&c.Conv), backend.Epilogue{Bias: c.b}
	s.Up = true
	if d, ok := v.Backend.(backend.Doubler); ok {
		d.ConvDoubled(v.H, v.X, s, &c.folded, backend.ConvInput{}, e)
	} else {
		v.Backend.Conv(v.H, v.X, s, c.w, backend.ConvInput{}, e)
	}
	v.Swap()
	v.Height, v.Width = s.OutHeight(), s.OutWidth()
}

// Halve convolves with stride 2. Height and width are even.
func (v *Canvas) Halve(c *Halving) {
	n := c.Weight.Shape[0]
	s := backend.ConvShape{Batch: 1, Height: v.Height, Width: v.Width, In: n, Out: n, KH: 4, KW: 4,
		Stride: 2, PadH: 1, PadW: 1}
	v.Backend.Conv(v.H, v.X, s, c.w, backend.ConvInput{}, backend.Epilogue{Bias: c.b})
	v.Swap()
	v.Height, v.Width = s.OutHeight(), s.OutWidth()
}

// Mean averages blocks of 2x2 pixels.
func (v *Canvas) Mean(channels int) {
	s := backend.ConvShape{Batch: 1, Height: v.Height, Width: v.Width, In: channels, Out: channels,
		KH: 2, KW: 2, Stride: 2}
	v.Backend.Pool(v.H, v.X, s, backend.Mean)
	v.Swap()
	v.Height, v.Width = s.OutHeight(), s.OutWidth()
}

// Read copies the image to pixels [height, width, 3]. It returns an error that names the pixel of
// the first NaN or infinite value.
func (v *Canvas) Read(pixels []float32) error {
	v.Backend.Read(pixels, v.X, 0)
	return Drawn(pixels)
}
