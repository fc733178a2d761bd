package vqgan

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/nn/picture"
)

type upLevel struct {
	Blocks   []*resBlock        `weight:"block"`
	Upsample picture.Upsampling `weight:"upsample.conv"` // missing in level 0
}

type decoder struct {
	ConvIn  picture.Conv      `weight:"conv_in"`
	Block1  *resBlock         `weight:"mid.block_1"`
	Block2  *resBlock         `weight:"mid.block_2"`
	Up      []*upLevel        `weight:"up"`
	NormOut picture.GroupNorm `weight:"norm_out"`
	ConvOut picture.Conv      `weight:"conv_out"`
}

// newDecoder returns the decoder without weights. Its levels go from the deepest, which has the
// most channels, to that of the pixels; Up has them in the order of the config.
func newDecoder(c Config) decoder {
	top := c.levelChannels(len(c.ChMult) - 1)
	d := decoder{
		ConvIn:  picture.NewConv(top, c.ZChannels, 3),
		Block1:  newResBlock(top, top),
		Block2:  newResBlock(top, top),
		Up:      make([]*upLevel, len(c.ChMult)),
		NormOut: picture.NewGroupNorm(c.levelChannels(0)),
		ConvOut: picture.NewConv(3, c.levelChannels(0), 3),
	}
	in := top
	for i := len(c.ChMult) - 1; i >= 0; i-- {
		u := &upLevel{Blocks: c.newResBlocks(in, c.levelChannels(i))}
		in = c.levelChannels(i)
		if i > 0 {
			u.Upsample = picture.NewUpsampling(in)
		}
		d.Up[i] = u
	}
	return d
}

// Load packs the layers.
func (d *decoder) Load(l *nn.Loader) {
	l.Load(&d.ConvIn, d.Block1, d.Block2, &d.NormOut, &d.ConvOut)
	for i, up := range d.Up {
		for _, r := range up.Blocks {
			r.Load(l)
		}
		if i > 0 {
			up.Upsample.Load(l)
		}
	}
}

// runOn draws the image of the latent [cells, ZChannels] on a canvas set to the grid's size.
func (d *decoder) runOn(v *picture.Canvas, latent *tensor.Dense) {
	v.Convolve(v.X, latent, &d.ConvIn, backend.ConvInput{}, backend.Epilogue{})
	d.Block1.runOn(v)
	d.Block2.runOn(v)
	for i := len(d.Up) - 1; i >= 0; i-- {
		for _, r := range d.Up[i].Blocks {
			r.runOn(v)
		}
		if i > 0 {
			v.Upsample(&d.Up[i].Upsample)
		}
	}
	v.ConvolveImage(&d.ConvOut, &d.NormOut)
}

// Decoder is the decoder alone. One call at a time.
type Decoder struct {
	Net decoder `weight:""`

	cfg    Config
	canvas *picture.Canvas
}

// MuseNames are the names of open-muse for a Decoder, which TiTok's files use
// (weights.BindOptions.Names).
var MuseNames = map[string]string{
	"mid.block_1":   "mid.0",
	"mid.block_2":   "mid.1",
	"upsample.conv": "upsample_conv",
}

// NewDecoder returns the network without weights. c.Codes is ignored.
func NewDecoder(c Config) *Decoder { return &Decoder{Net: newDecoder(c), cfg: c} }

// Load packs the bound weights.
func (m *Decoder) Load(l *nn.Loader) { m.Net.Load(l) }

// Side returns the number of pixels along a side of the image.
func (m *Decoder) Side() int { return m.cfg.Side() }

// Draw writes the image of the latent [Grid*Grid, ZChannels] to pixels [Side, Side, 3], colours 0
// to 1, or a little outside where the network overshoots.
func (m *Decoder) Draw(b backend.Backend, pixels []float32, latent *tensor.Dense) error {
	draw := func(v *picture.Canvas) {
		v.Begin(m.cfg.Grid, m.cfg.Grid)
		m.Net.runOn(v, latent)
	}
	if m.canvas == nil {
		m.canvas = picture.NewCanvas(b, draw)
	}
	draw(m.canvas)
	return m.canvas.Read(pixels)
}

// CheckSizes returns a one-line error for impossible sizes. c.Codes is ignored.
func (c Config) CheckSizes() error {
	c.Codes = 1
	return c.checkValues()
}
