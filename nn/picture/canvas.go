// Package picture has the layers that image tokenizers share: convolutions and group norms over one
// image at a time, and the codebook between images and tokens.
package picture

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Canvas holds the current image, [height, width, channels]. Its buffers have the size of the
// largest activation, or of the largest in that buffer, so memory does not grow with the batch.
type Canvas struct {
	Backend       backend.Backend
	X             *tensor.Dense // [1, values]: the image
	H             *tensor.Dense // [1, values]: the output of the current layer
	Height, Width int

	// shortcut is [1, values], for shortcuts with weights, which need the input and the output.
	shortcut *tensor.Dense

	// buffers has X, H and shortcut as they are before an image's first layer.
	buffers [3]*tensor.Dense

	// normMaps are the maps of group norms by number of channels.
	normMaps map[int]*affine

	attention attentionBuffers

	// measured is nil unless the canvas only measures: then layers compute nothing, and it has the
	// values that each buffer needs.
	measured map[*tensor.Dense]int
}

// affine is a group norm's map for one image.
type affine struct{ scale, shift *tensor.Dense } // [1, channels]

// NewCanvas allocates each buffer in the size that it needs in some runs. A run applies the
// layers of an image to a canvas, after Begin; here they compute nothing.
func NewCanvas(b backend.Backend, runs ...func(v *Canvas)) *Canvas {
	var sizes [3]int
	for _, run := range runs {
		v := &Canvas{Backend: b, measured: map[*tensor.Dense]int{}}
		for i := range v.buffers {
			v.buffers[i] = new(tensor.Dense) // only its address is used
		}
		run(v)
		for i, buffer := range v.buffers {
			sizes[i] = max(sizes[i], v.measured[buffer])
		}
	}
	v := &Canvas{Backend: b, normMaps: map[int]*affine{}}
	for i, n := range sizes {
		if n > 0 {
			v.buffers[i] = b.New(1, n)
		}
	}
	return v
}

// Begin sets the size of an image in pixels or codes and restores the order of the buffers.
func (v *Canvas) Begin(height, width int) {
	v.X = v.buffers[0]
	v.H = v.buffers[1]
	v.shortcut = v.buffers[2]
	v.Height = height
	v.Width = width
}

// recordSize reports whether the canvas only measures, and records then that a layer writes n
// values to dst.
func (v *Canvas) recordSize(dst *tensor.Dense, n int) bool {
	if v.measured == nil {
		return false
	}
	v.measured[dst] = max(v.measured[dst], n)
	return true
}

// Write sets the image to pixels [height, width, channels].
func (v *Canvas) Write(pixels []float32) {
	if !v.recordSize(v.X, len(pixels)) {
		v.Backend.Write(v.X, 0, pixels)
	}
}

// Shortcut returns the buffer for shortcuts with weights.
func (v *Canvas) Shortcut() *tensor.Dense { return v.shortcut }

// NormSwish returns the group norm of x followed by swish, as the input of a convolution, which
// applies it when it reads x: the normalised image is never in memory.
func (v *Canvas) NormSwish(x *tensor.Dense, n *GroupNorm) backend.ConvInput {
	if v.measured != nil { // a canvas that measures computes nothing
		return backend.ConvInput{}
	}
	channels := n.Weight.Shape[0]
	m := v.normMaps[channels]
	if m == nil {
		m = &affine{scale: v.Backend.New(1, channels), shift: v.Backend.New(1, channels)}
		v.normMaps[channels] = m
	}
	v.Backend.GroupNorm(m.scale, m.shift, x, 1, v.Height*v.Width, channels, Groups, n.affine)
	return backend.ConvInput{Scale: m.scale, Shift: m.shift, SiLU: true}
}

// convShape returns the shape of a convolution of the image.
func (v *Canvas) convShape(c *Conv) backend.ConvShape {
	k := c.Weight.Shape[2]
	return backend.ConvShape{
		Batch:  1,
		Height: v.Height,
		Width:  v.Width,
		In:     c.Weight.Shape[1],
		Out:    c.Weight.Shape[0],
		KH:     k,
		KW:     k,
		PadH:   k / 2,
		PadW:   k / 2,
	}
}

// Convolve writes the convolution of x [height, width, in] to dst [height, width, out].
func (v *Canvas) Convolve(dst, x *tensor.Dense, c *Conv, in backend.ConvInput, e backend.Epilogue) {
	s := v.convShape(c)
	if v.recordSize(dst, s.OutHeight()*s.OutWidth()*s.Out) {
		return
	}
	e.Bias = c.b
	v.Backend.Conv(dst, x, s, c.w, in, e)
}

// ConvolveImage replaces the image by its convolution, after norm and swish unless n is nil.
func (v *Canvas) ConvolveImage(c *Conv, n *GroupNorm) {
	var in backend.ConvInput
	if n != nil {
		in = v.NormSwish(v.X, n)
	}
	v.Convolve(v.H, v.X, c, in, backend.Epilogue{})
	v.Swap()
}

// Swap makes H the image.
func (v *Canvas) Swap() { v.X, v.H = v.H, v.X }

// SwapShortcut makes the buffer for shortcuts the image.
func (v *Canvas) SwapShortcut() { v.X, v.shortcut = v.shortcut, v.X }

// Upsample repeats every pixel twice in both directions, then convolves.
func (v *Canvas) Upsample(c *Upsampling) {
	s := v.convShape(&c.Conv)
	e := backend.Epilogue{Bias: c.b}
	s.Upsample = true
	v.replaceImage(s, func() {
		if d, ok := v.Backend.(backend.Doubler); ok {
			d.ConvDoubled(v.H, v.X, s, &c.folded, backend.ConvInput{}, e)
		} else {
			v.Backend.Conv(v.H, v.X, s, c.w, backend.ConvInput{}, e)
		}
	})
}

// replaceImage replaces the image by what compute writes to H.
func (v *Canvas) replaceImage(s backend.ConvShape, compute func()) {
	if !v.recordSize(v.H, s.OutHeight()*s.OutWidth()*s.Out) {
		compute()
	}
	v.Swap()
	v.Height = s.OutHeight()
	v.Width = s.OutWidth()
}

// Downsample convolves with stride 2. Height and width are even.
func (v *Canvas) Downsample(c *Downsampling) {
	n := c.Weight.Shape[0]
	s := backend.ConvShape{
		Batch:  1,
		Height: v.Height,
		Width:  v.Width,
		In:     n,
		Out:    n,
		KH:     4,
		KW:     4,
		Stride: 2,
		PadH:   1,
		PadW:   1,
	}
	v.replaceImage(s, func() {
		v.Backend.Conv(v.H, v.X, s, c.w, backend.ConvInput{}, backend.Epilogue{Bias: c.b})
	})
}

// AveragePool averages blocks of 2x2 pixels.
func (v *Canvas) AveragePool(channels int) {
	s := backend.ConvShape{
		Batch:  1,
		Height: v.Height,
		Width:  v.Width,
		In:     channels,
		Out:    channels,
		KH:     2,
		KW:     2,
		Stride: 2,
	}
	v.replaceImage(s, func() { v.Backend.Pool(v.H, v.X, s, backend.Mean) })
}

// Read copies the image to pixels [height, width, 3]. It returns an error that names the pixel of
// the first NaN or infinite value.
func (v *Canvas) Read(pixels []float32) error {
	v.Backend.Read(pixels, v.X, 0)
	return CheckDrawn(pixels)
}
