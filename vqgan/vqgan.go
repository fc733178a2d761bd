// Package vqgan is the image tokenizer that MAGE ships (converted from the JAX code of
// MaskGIT, Chang et al., CVPR 2022): a convolutional encoder, a codebook and a decoder.
//
// It is not the common VQGAN: no attention, no projections around the codebook, 3x3
// convolutions without bias in the residual blocks, and a shortcut that is applied to the
// block's own output.
package vqgan

import (
	"fmt"
	"math"
	"strings"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// Model turns images into codes and back. It works on one image at a time in two
// buffers, each of the largest activation (33.5 MB for 256x256 pixels of 128 channels), which are
// allocated by the first call; memory does not grow with the batch, and an image's bytes
// do not depend on it. One call at a time.
type Model struct {
	Encoder  encoder  `weight:"encoder"`
	Decoder  decoder  `weight:"decoder"`
	Codebook codebook `weight:"quantize.embedding"`

	cfg    Config
	b      backend.Backend
	canvas canvas
	latent *tensor.Dense // [Grid*Grid, ZChannels]
	pixels []float32     // [Side, Side, 3]
}

type codebook struct {
	Weight weights.Param `weight:"weight"` // [codes, latent channels]

	host  []float32
	table *tensor.Dense
}

type level struct {
	Blocks []*resBlock `weight:"block"`
}

type upLevel struct {
	Blocks   []*resBlock `weight:"block"`
	Upsample conv        `weight:"upsample.conv"` // absent in level 0
}

type middle struct {
	Block1 *resBlock `weight:"block_1"`
	Block2 *resBlock `weight:"block_2"`
}

type encoder struct {
	ConvIn  conv     `weight:"conv_in"`
	Down    []*level `weight:"down"`
	Mid     middle   `weight:"mid"`
	NormOut norm     `weight:"norm_out"`
	ConvOut conv     `weight:"conv_out"`
}

type decoder struct {
	ConvIn  conv       `weight:"conv_in"`
	Mid     middle     `weight:"mid"`
	Up      []*upLevel `weight:"up"`
	NormOut norm       `weight:"norm_out"`
	ConvOut conv       `weight:"conv_out"`
}

// build returns the network without weights.
func build(c Config) *Model {
	top := c.channels(len(c.ChMult) - 1)
	m := &Model{cfg: c, Codebook: codebook{Weight: weights.Param{Shape: []int{c.Codes, c.ZChannels}}}}
	mid := func() middle { return middle{newResBlock(top, top), newResBlock(top, top)} }
	blocks := func(in, out int) (list []*resBlock) {
		for range c.ResBlocks {
			list = append(list, newResBlock(in, out))
			in = out
		}
		return list
	}
	m.Encoder = encoder{ConvIn: newConvNoBias(c.Ch, 3, 3), Mid: mid(), NormOut: newNorm(top), ConvOut: newConv(c.ZChannels, top, 1)}
	m.Decoder = decoder{ConvIn: newConv(top, c.ZChannels, 3), Mid: mid(), NormOut: newNorm(c.channels(0)), ConvOut: newConv(3, c.channels(0), 3)}
	m.Decoder.Up = make([]*upLevel, len(c.ChMult))
	in := c.Ch
	for i := range c.ChMult {
		m.Encoder.Down = append(m.Encoder.Down, &level{blocks(in, c.channels(i))})
		in = c.channels(i)
	}
	for i := len(c.ChMult) - 1; i >= 0; i-- {
		u := &upLevel{Blocks: blocks(in, c.channels(i))}
		in = c.channels(i)
		if i > 0 {
			u.Upsample = newConv(in, in, 3)
		}
		m.Decoder.Up[i] = u
	}
	return m
}

// Load reads the network of a MAGE model: sizes from config.json, tensors under `vqgan.` (or
// whatever stands before the codebook's name). Precision is that of the convolutions; the
// nearest code is found in float64 whatever it is.
func Load(src *model.Source, o model.Options) (*Model, error) {
	c, err := ReadConfig(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	m, err := New(src.Set, c, o)
	if err == nil {
		err = src.Set.ReleaseAll() // the weights are packed
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	return m, nil
}

const anchor = "quantize.embedding.weight"

// New builds the network of sizes c from its tensors in set; those of other networks are left
// alone. The weights are packed and set may be released.
func New(set *weights.Set, c Config, o model.Options) (_ *Model, err error) {
	defer backend.Recover(&err)
	if err := c.check(); err != nil {
		return nil, err
	}
	base, err := set.Rebase(anchor)
	if err != nil {
		return nil, err
	}
	m := build(c)
	if err := weights.Bind(m, base, weights.BindOptions{Ignore: others(set, base.Prefix())}); err != nil {
		return nil, fmt.Errorf("vqgan: %w", err)
	}
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.b = o.Backend
	m.load(l)
	m.Codebook.host = l.Floats(&m.Codebook.Weight)
	if err := l.Err(); err != nil {
		return nil, err
	}
	m.Codebook.table = o.Backend.New(c.Codes, c.ZChannels)
	o.Backend.Write(m.Codebook.table, 0, m.Codebook.host)
	return m, nil
}

// others are patterns of the tensors outside the prefix: the rest of a MAGE model.
func others(set *weights.Set, prefix string) (list []string) {
	quote := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
	for _, name := range set.Names() {
		if !strings.HasPrefix(strings.ReplaceAll(name, "_orig_mod.", ""), prefix) {
			list = append(list, quote.Replace(name))
		}
	}
	return list
}

// load packs all layers.
func (m *Model) load(l *nn.Loader) {
	e, d := &m.Encoder, &m.Decoder
	for _, c := range []*conv{&e.ConvIn, &e.ConvOut, &d.ConvIn, &d.ConvOut} {
		c.load(l)
	}
	e.NormOut.load(l)
	d.NormOut.load(l)
	blocks := []*resBlock{e.Mid.Block1, e.Mid.Block2, d.Mid.Block1, d.Mid.Block2}
	for i := range e.Down {
		blocks = append(append(blocks, e.Down[i].Blocks...), d.Up[i].Blocks...)
		if i > 0 {
			d.Up[i].Upsample.load(l)
		}
	}
	for _, r := range blocks {
		r.load(l)
	}
}

// Config returns the network's sizes.
func (m *Model) Config() Config { return m.cfg }

// prepare allocates the buffers and sets the canvas to an image of side x side pixels.
func (m *Model) prepare(side int) *canvas {
	if m.canvas.x == nil {
		c, most := m.cfg, 0
		for i := range c.ChMult {
			s := c.Side() >> i
			most = max(most, s*s*max(3, c.channels(i)))
			if i > 0 {
				most = max(most, 4*s*s*c.channels(i)) // upsampled, before the channels shrink
			}
		}
		most = max(most, c.Grid*c.Grid*c.ZChannels)
		m.canvas = canvas{b: m.b, x: m.b.New(1, most), h: m.b.New(1, most), maps: map[int]*affine{}}
		m.latent = m.b.New(c.Grid*c.Grid, c.ZChannels)
		m.pixels = make([]float32, c.Side()*c.Side()*3)
	}
	m.canvas.height, m.canvas.width = side, side
	return &m.canvas
}

// decode leaves the image of Grid*Grid codes in m.pixels, NHWC.
func (m *Model) decode(codes []int32) error {
	for i, c := range codes {
		if c < 0 || int(c) >= m.cfg.Codes {
			return fmt.Errorf("code %d at position %d, allowed are 0..%d", c, i, m.cfg.Codes-1)
		}
	}
	v, d := m.prepare(m.cfg.Grid), &m.Decoder
	m.b.Gather(m.latent, m.Codebook.table, codes)
	v.run(v.x, m.latent, &d.ConvIn, backend.ConvInput{}, backend.Epilogue{})
	d.Mid.Block1.apply(v)
	d.Mid.Block2.apply(v)
	for i := len(d.Up) - 1; i >= 0; i-- {
		for _, r := range d.Up[i].Blocks {
			r.apply(v)
		}
		if i > 0 {
			v.double(&d.Up[i].Upsample)
		}
	}
	v.step(&d.ConvOut, &d.NormOut)
	m.b.Read(m.pixels, v.x, 0)
	for i, x := range m.pixels {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("pixel %d of the image is %v: the weights or the precision are unfit", i/3, x)
		}
	}
	return nil
}

// encode writes the codes of the image in m.pixels, NHWC.
func (m *Model) encode(codes []int32) {
	z := m.latents()
	for i := range codes {
		codes[i] = m.Codebook.nearest(z[i*m.cfg.ZChannels : (i+1)*m.cfg.ZChannels])
	}
}

// latents returns the encoder's output [Grid*Grid, ZChannels] for the image in m.pixels.
func (m *Model) latents() []float32 {
	v, e := m.prepare(m.cfg.Side()), &m.Encoder
	m.b.Write(v.x, 0, m.pixels)
	v.step(&e.ConvIn, nil)
	for i, l := range e.Down {
		for _, r := range l.Blocks {
			r.apply(v)
		}
		if i < len(e.Down)-1 {
			v.halve(m.cfg.channels(i))
		}
	}
	e.Mid.Block1.apply(v)
	e.Mid.Block2.apply(v)
	v.run(m.latent, v.x, &e.ConvOut, v.normed(v.x, &e.NormOut), backend.Epilogue{})
	z := make([]float32, m.cfg.Grid*m.cfg.Grid*m.cfg.ZChannels)
	m.b.Read(z, m.latent, 0)
	return z
}

// nearest returns the code at the least squared distance from z, the lowest among equals. The
// sum is of squared differences in float64: the expansion |z|^2 + |c|^2 - 2zc cancels.
func (c *codebook) nearest(z []float32) int32 {
	best, at := math.Inf(1), 0
	for i := range c.Weight.Shape[0] {
		d := 0.0
		for j, w := range c.host[i*len(z) : (i+1)*len(z)] {
			e := float64(z[j]) - float64(w)
			d += float64(e * e)
			if j&15 == 15 && d >= best {
				break
			}
		}
		if d < best {
			best, at = d, i
		}
	}
	return int32(at)
}
