// Package vq has the convolutional image tokenizers in the common form of latent diffusion (Esser
// et al., 2021, "Taming transformers for high-resolution image synthesis"), which are one network:
//
//   - LlamaGen's, used by Halton-MaskGIT (Sun et al. 2024, "Autoregressive model beats diffusion:
//     Llama for scalable image generation", tokenizer/tokenizer_image/vq_model.py), vq_ds16_c2i.pt
//     and vq_ds8_c2i.pt: codes of unit length, attention at the smallest size, colours -1 to 1;
//   - the VQModel of diffusers, used by aMUSEd (models/autoencoders/vq_model.py): no attention,
//     plain distances between codes, colours 0 to 1.
//
// Sizes are read from the tensors, except the grid of codes, which the caller gives, because the
// networks are convolutional.
package vq

import (
	"fmt"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/nn/picture"
	"unmask/weights"
)

// Model turns images into codes and back, in buffers that have the size of their largest
// activation.
type Model struct {
	picture.Codec

	Encoder   side             `weight:"encoder"`
	Decoder   side             `weight:"decoder"`
	Codebook  picture.Codebook `weight:"quantize.embedding"`
	QuantConv picture.Conv     `weight:"quant_conv"`
	PostConv  picture.Conv     `weight:"post_quant_conv"`

	scale     int // pixels of a code along a side
	b         backend.Backend
	projected *tensor.Dense // [codes, latent channels]
}

// side is the encoder or the decoder, with the names of diffusers.
type side struct {
	In     picture.Conv       `weight:"conv_in"`
	Down   []*level           `weight:"down_blocks"` // the encoder's
	Up     []*level           `weight:"up_blocks"`   // the decoder's, from the smallest size on
	Before *resBlock          `weight:"mid_block.resnets.0"`
	Attn   *picture.Attention `weight:"mid_block.attentions.0"` // nil: none
	After  *resBlock          `weight:"mid_block.resnets.1"`
	Norm   picture.GroupNorm  `weight:"conv_norm_out"`
	Out    picture.Conv       `weight:"conv_out"`
}

// level is residual blocks, each followed by an attention if the level has any, and then a step to
// half or double size.
type level struct {
	Res  []*resBlock           `weight:"resnets"`
	Attn []*picture.Attention  `weight:"attentions"`
	Down *picture.Downsampling `weight:"downsamplers.0.conv"`
	Up   *picture.Upsampling   `weight:"upsamplers.0.conv"`
}

// llamagenNames are the names of LlamaGen's tensors (weights.BindOptions.Names).
var llamagenNames = map[string]string{
	"down_blocks":            "conv_blocks",
	"up_blocks":              "conv_blocks",
	"resnets":                "res",
	"attentions":             "attn",
	"downsamplers.0.conv":    "downsample.conv",
	"upsamplers.0.conv":      "upsample.conv",
	"mid_block.resnets.0":    "mid.0",
	"mid_block.attentions.0": "mid.1",
	"mid_block.resnets.1":    "mid.2",
	"conv_norm_out":          "norm_out",
	"conv_shortcut":          "nin_shortcut",
}

// allLevels returns all levels in the order of computation, that at the smallest size between the
// encoder's and the decoder's.
func (s *side) allLevels() []*level {
	mid := &level{Res: []*resBlock{s.Before, s.After}}
	if s.Attn != nil {
		mid.Attn = []*picture.Attention{s.Attn}
	}
	return append(append(s.Down[:len(s.Down):len(s.Down)], mid), s.Up...)
}

// Load packs the layers.
func (s *side) Load(l *nn.Loader) {
	l.Load(&s.In, &s.Norm, &s.Out)
	for _, level := range s.allLevels() {
		for _, r := range level.Res {
			l.Load(r)
		}
		for _, a := range level.Attn {
			l.Load(a)
		}
		if level.Down != nil {
			l.Load(level.Down)
		}
		if level.Up != nil {
			l.Load(level.Up)
		}
	}
}

// runOn runs the side over the canvas, except its first and last convolutions.
func (s *side) runOn(v *picture.Canvas) {
	for _, l := range s.allLevels() {
		for i, r := range l.Res {
			r.runOn(v)
			if i < len(l.Attn) {
				v.Attend(l.Attn[i])
			}
		}
		if l.Down != nil {
			v.Downsample(l.Down)
		}
		if l.Up != nil {
			v.Upsample(l.Up)
		}
	}
}

// resBlock is norm, swish, 3x3, norm, swish, 3x3, added to the input or, if the number of channels
// changes, to a 1x1 convolution of it.
type resBlock struct {
	Norm1    picture.GroupNorm `weight:"norm1"`
	Conv1    picture.Conv      `weight:"conv1"`
	Norm2    picture.GroupNorm `weight:"norm2"`
	Conv2    picture.Conv      `weight:"conv2"`
	Shortcut picture.Conv      `weight:"conv_shortcut"`
}

// Load packs the layers.
func (r *resBlock) Load(l *nn.Loader) {
	l.Load(&r.Norm1, &r.Conv1, &r.Norm2, &r.Conv2)
	if r.Shortcut.Exists() {
		r.Shortcut.Load(l)
	}
}

// runOn replaces the canvas by the block's output.
func (r *resBlock) runOn(v *picture.Canvas) {
	v.Convolve(v.H, v.X, &r.Conv1, v.NormSwish(v.X, &r.Norm1), backend.Epilogue{})
	if !r.Shortcut.Exists() {
		v.Convolve(v.X, v.H, &r.Conv2, v.NormSwish(v.H, &r.Norm2), backend.Epilogue{Add: true})
		return
	}
	output := v.Shortcut() // X is still the input
	v.Convolve(output, v.X, &r.Shortcut, backend.ConvInput{}, backend.Epilogue{})
	v.Convolve(output, v.H, &r.Conv2, v.NormSwish(v.H, &r.Norm2), backend.Epilogue{Add: true})
	v.SwapShortcut()
}

// Load loads a tokenizer for images of side x side codes. The precision is that of the
// convolutions; nearest codes are found in float64 at any precision. The encoder's and the
// decoder's weights are packed when they are first used; src must stay open until then.
func Load(src *model.Source, side int, o model.Options) (*Model, error) {
	b := &builder{Sizes: weights.Sizes{Set: src.Set}}
	llamaGen := isLlamaGen(src)
	if llamaGen {
		b.names = llamagenNames
	}
	m := b.newModel()
	m.Codebook.Unit = llamaGen
	if b.Err != nil {
		return nil, b.Err
	}
	if limit := maxPixels / m.scale; side < 1 || side > limit {
		return nil, fmt.Errorf("the grid is %d x %d codes, want 1 to %d along a side", side, side, limit)
	}
	if err := weights.Bind(m, src.Set,
		weights.BindOptions{Names: b.names, Ignore: unused}); err != nil {
		return nil, err
	}
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.Codebook.Load(l)
	m.Codec = picture.Codec{
		Grid:   []int{side, side},
		Width:  m.scale * side,
		Height: m.scale * side,
		Book:   &m.Codebook,
		Offset: 0.5,
		Halves: l.LazyHalves(src.Name, src.Set,
			func(l *nn.Loader) { l.Load(&m.QuantConv, &m.Encoder) },
			func(l *nn.Loader) { l.Load(&m.PostConv, &m.Decoder) }),
	}
	m.UseCanvas(m.b, llamaGen, m.drawPixels, m.readLatent)
	return m, l.Err()
}

// unused are tensors of published files that neither direction needs.
var unused = []string{"quantize.codebook_used"}

const maxPixels = 1 << 13 // along a side

// drawPixels computes the image of a latent [codes, width of the codebook].
func (m *Model) drawPixels(v *picture.Canvas, latent *tensor.Dense) {
	m.projected = backend.Grow(m.b, m.projected, m.Grid[0]*m.Grid[1], m.PostConv.Weight.Shape[0])
	v.Begin(m.Grid[0], m.Grid[1])
	v.Convolve(m.projected, latent, &m.PostConv, backend.ConvInput{}, backend.Epilogue{})
	v.Convolve(v.X, m.projected, &m.Decoder.In, backend.ConvInput{}, backend.Epilogue{})
	m.Decoder.runOn(v)
	v.ConvolveImage(&m.Decoder.Out, &m.Decoder.Norm)
}

// readLatent computes the latent [codes, width of the codebook] of the image in m.Pixels.
func (m *Model) readLatent(v *picture.Canvas, latent *tensor.Dense) {
	v.Begin(m.Height, m.Width)
	v.Write(m.Pixels)
	v.ConvolveImage(&m.Encoder.In, nil)
	m.Encoder.runOn(v)
	v.ConvolveImage(&m.Encoder.Out, &m.Encoder.Norm)
	v.Convolve(latent, v.X, &m.QuantConv, backend.ConvInput{}, backend.Epilogue{})
}
