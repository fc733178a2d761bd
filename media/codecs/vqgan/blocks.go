package vqgan

import (
	"unmask/backend"
	"unmask/nn"
	"unmask/nn/picture"
)

// resBlock is norm, swish, 3x3, norm, swish, 3x3, added to the input. If the number of channels
// changes, the 1x1 shortcut is applied to the block's own output h, and added to h: h + shortcut(h)
// is one product with the identity added to the weights.
type resBlock struct {
	Norm1    picture.GroupNorm `weight:"norm1"`
	Conv1    picture.Conv      `weight:"conv1"`
	Norm2    picture.GroupNorm `weight:"norm2"`
	Conv2    picture.Conv      `weight:"conv2"`
	Shortcut picture.Conv      `weight:"nin_shortcut"`
}

// newResBlock returns a residual block without weights. Where the widths differ it has a shortcut,
// which reads the block's output and not its input, as in the authors' program.
func newResBlock(in, out int) *resBlock {
	r := &resBlock{
		Norm1: picture.NewGroupNorm(in),
		Conv1: picture.NewConvNoBias(out, in, 3),
		Norm2: picture.NewGroupNorm(out),
		Conv2: picture.NewConvNoBias(out, out, 3),
	}
	if in != out {
		r.Shortcut = picture.NewConvNoBias(out, out, 1)
	}
	return r
}

// newResBlocks returns a level's blocks.
func (c Config) newResBlocks(in, out int) (list []*resBlock) {
	for range c.ResBlocks {
		list = append(list, newResBlock(in, out))
		in = out
	}
	return list
}

// Load packs the layers.
func (r *resBlock) Load(l *nn.Loader) {
	l.Load(&r.Norm1, &r.Conv1, &r.Norm2, &r.Conv2)
	if r.Shortcut.Exists() {
		// Next to the identity's ones a coarse precision would lose the shortcut's own weights.
		r.Shortcut.Pack(l, backend.F32, 1)
	}
}

// runOn replaces the canvas by the block's output.
func (r *resBlock) runOn(v *picture.Canvas) {
	v.Convolve(v.H, v.X, &r.Conv1, v.NormSwish(v.X, &r.Norm1), backend.Epilogue{})
	in := v.NormSwish(v.H, &r.Norm2)
	if !r.Shortcut.Exists() {
		v.Convolve(v.X, v.H, &r.Conv2, in, backend.Epilogue{Add: true})
		return
	}
	// written over the input, which is no longer needed
	v.Convolve(v.X, v.H, &r.Conv2, in, backend.Epilogue{})
	v.ConvolveImage(&r.Shortcut, nil)
}
