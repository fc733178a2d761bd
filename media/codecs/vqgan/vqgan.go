// Package vqgan is the image tokenizer that MAGE ships (converted from the JAX code of
// MaskGIT, Chang et al., CVPR 2022): a convolutional encoder, a codebook and a decoder.
//
// It is not the common VQGAN: no attention, no projections around the codebook, 3x3 convolutions
// without bias in the residual blocks, and a shortcut that is applied to the block's own output.
package vqgan

import (
	"fmt"
	"strings"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/nn/picture"
	"unmask/param"
	"unmask/weights"
)

func init() {
	model.RegisterCodec(model.CodecFormat{
		Name:  "vqgan",
		Match: func(src *model.Source) bool { return src.ConfigValues().Has("vqgan") },
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			c, err := ReadConfig(src)
			if err != nil {
				return nil, err
			}
			return Build(src, c, o)
		},
	})
}

// Model turns images into codes and back in two buffers that have the size of their largest
// activation (33.5 MB for 256x256 pixels of 128 channels); the first call allocates them.
type Model struct {
	picture.Codec

	Encoder  encoder          `weight:"encoder"`
	Decoder  decoder          `weight:"decoder"`
	Codebook picture.Codebook `weight:"quantize.embedding"`

	cfg Config
}

type level struct {
	Blocks []*resBlock `weight:"block"`
}

type encoder struct {
	ConvIn  picture.Conv      `weight:"conv_in"`
	Down    []*level          `weight:"down"`
	Block1  *resBlock         `weight:"mid.block_1"`
	Block2  *resBlock         `weight:"mid.block_2"`
	NormOut picture.GroupNorm `weight:"norm_out"`
	ConvOut picture.Conv      `weight:"conv_out"`
}

// New returns the network without weights.
func New(c Config) *Model {
	top := c.levelChannels(len(c.ChMult) - 1)
	m := &Model{cfg: c, Codebook: picture.NewCodebook(c.Codes, c.ZChannels), Decoder: newDecoder(c)}
	m.Encoder = encoder{
		ConvIn:  picture.NewConvNoBias(c.Ch, 3, 3),
		Block1:  newResBlock(top, top),
		Block2:  newResBlock(top, top),
		NormOut: picture.NewGroupNorm(top),
		ConvOut: picture.NewConv(c.ZChannels, top, 1),
	}
	in := c.Ch
	for i := range c.ChMult {
		m.Encoder.Down = append(m.Encoder.Down, &level{c.newResBlocks(in, c.levelChannels(i))})
		in = c.levelChannels(i)
	}
	return m
}

// Load loads the codec of a MAGE model: sizes from config.json, tensors under `vqgan.` (or another
// prefix of the codebook's name). The precision is that of the convolutions; nearest codes are
// found in float64 at any precision. The encoder's and the decoder's weights are packed when they
// are first used; src must stay open until then.
func Load(src *model.Source, o model.Options) (*Model, error) {
	c, err := ReadConfig(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	m, err := Build(src, c, o)
	if err == nil {
		err = src.Set.ReleaseAll() // the codebook is read
	}
	return m, param.AtPlace(src.Name, err)
}

const anchor = "quantize.embedding.weight"

// Build builds the network of sizes c from its tensors in src and ignores those of other networks.
// The encoder's and the decoder's weights are packed when they are first used; src must stay open
// until then.
func Build(src *model.Source, c Config, o model.Options) (_ *Model, err error) {
	defer backend.Recover(&err)
	if err := c.checkValues(); err != nil {
		return nil, err
	}
	base, err := src.Set.Rebase(anchor)
	if err != nil {
		return nil, err
	}
	m := New(c)
	if err := weights.Bind(m, base,
		weights.BindOptions{Ignore: otherTensors(src.Set, base.Prefix())}); err != nil {
		return nil, fmt.Errorf("vqgan: %w", err)
	}
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.Codebook.Load(l)
	m.Codec = picture.Codec{
		Grid:   []int{c.Grid, c.Grid},
		Width:  c.Side(),
		Height: c.Side(),
		Book:   &m.Codebook,
		Halves: l.LazyHalves(src.Name, src.Set, m.Encoder.Load, m.Decoder.Load),
	}
	m.UseCanvas(o.Backend, false, m.drawPixels, m.readLatent)
	return m, l.Err()
}

// otherTensors returns patterns of the tensors outside the prefix: the rest of a MAGE model.
func otherTensors(set *weights.Set, prefix string) (list []string) {
	quote := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
	for _, name := range set.Names() {
		if !strings.HasPrefix(strings.ReplaceAll(name, "_orig_mod.", ""), prefix) {
			list = append(list, quote.Replace(name))
		}
	}
	return list
}

// Load packs the layers.
func (e *encoder) Load(l *nn.Loader) {
	l.Load(&e.ConvIn, e.Block1, e.Block2, &e.NormOut, &e.ConvOut)
	for _, down := range e.Down {
		for _, r := range down.Blocks {
			r.Load(l)
		}
	}
}

// Config returns the network's sizes.
func (m *Model) Config() Config { return m.cfg }

// drawPixels computes the image of latents.
func (m *Model) drawPixels(v *picture.Canvas, latent *tensor.Dense) {
	v.Begin(m.cfg.Grid, m.cfg.Grid)
	m.Decoder.runOn(v, latent)
}

// readLatent computes the latents of the image in m.Pixels.
func (m *Model) readLatent(v *picture.Canvas, latent *tensor.Dense) {
	e := &m.Encoder
	v.Begin(m.cfg.Side(), m.cfg.Side())
	v.Write(m.Pixels)
	v.ConvolveImage(&e.ConvIn, nil)
	for i, l := range e.Down {
		for _, r := range l.Blocks {
			r.runOn(v)
		}
		if i < len(e.Down)-1 {
			v.AveragePool(m.cfg.levelChannels(i))
		}
	}
	e.Block1.runOn(v)
	e.Block2.runOn(v)
	v.Convolve(latent, v.X, &e.ConvOut, v.NormSwish(v.X, &e.NormOut), backend.Epilogue{})
}
