package vq

import (
	"fmt"

	"unmask/nn/picture"
)

// llamagen is the tokenizer of LlamaGen (Sun et al. 2024, "Autoregressive model beats diffusion:
// Llama for scalable image generation", tokenizer/tokenizer_image/vq_model.py), vq_ds16_c2i.pt
// and vq_ds8_c2i.pt: codes of unit length, attention at the smallest size.
type llamagen struct {
	*Model  `weight:""`
	Encoder llamagenSide `weight:"encoder"`
	Decoder llamagenSide `weight:"decoder"`
}

type llamagenSide struct {
	ConvIn  picture.Conv      `weight:"conv_in"`
	Blocks  []llamagenLevel   `weight:"conv_blocks"`
	Mid     llamagenMiddle    `weight:"mid"`
	NormOut picture.GroupNorm `weight:"norm_out"`
	ConvOut picture.Conv      `weight:"conv_out"`
}

type llamagenLevel struct {
	Res  []*resBlock          `weight:"res"`
	Attn []*picture.Attention `weight:"attn"`
	Down *picture.Halving     `weight:"downsample.conv"`
	Up   *picture.Doubling    `weight:"upsample.conv"`
}

type llamagenMiddle struct {
	Before *resBlock          `weight:"0"`
	Attn   *picture.Attention `weight:"1"`
	After  *resBlock          `weight:"2"`
}

// llamagen returns the network. The decoder's levels are numbered from the smallest.
func (b *builder) llamagen() (*Model, any) {
	m := &Model{signed: true}
	root := &llamagen{Model: m}
	m.encoder, m.decoder = b.llamagenSide(&root.Encoder, "encoder."),
		b.llamagenSide(&root.Decoder, "decoder.")
	m.decoder.midBefore = true
	b.chain(m.encoder)
	b.chain(m.decoder)
	b.ends(m)
	m.Codebook.Unit = true
	return m, root
}

func (b *builder) llamagenSide(l *llamagenSide, p string) *side {
	l.ConvIn, l.ConvOut = b.conv(p+"conv_in"), b.conv(p+"conv_out")
	attention := func(name string) *picture.Attention {
		return picture.NewAttention(b.channels(name, b.shape(name+".q.weight", 4)[0]))
	}
	const shortcut = "nin_shortcut"
	l.Mid = llamagenMiddle{b.res(p+"mid.0", shortcut), attention(p + "mid.1"),
		b.res(p+"mid.2", shortcut)}
	s := &side{in: &l.ConvIn, out: &l.ConvOut, norm: &l.NormOut,
		mid: stage{res: []*resBlock{l.Mid.Before, l.Mid.After}, attn: []*picture.Attention{l.Mid.Attn}}}
	for i := range b.Count(p+"conv_blocks.", ".res.0.conv1.weight") {
		name, level := fmt.Sprintf("%sconv_blocks.%d", p, i), llamagenLevel{}
		for j := range b.Count(name+".res.", ".conv1.weight") {
			level.Res = append(level.Res, b.res(fmt.Sprintf("%s.res.%d", name, j), shortcut))
		}
		for j := range b.Count(name+".attn.", ".q.weight") {
			level.Attn = append(level.Attn, attention(fmt.Sprintf("%s.attn.%d", name, j)))
		}
		if b.Has(name + ".downsample.conv.weight") {
			level.Down = new(picture.Halving)
		}
		if b.Has(name + ".upsample.conv.weight") {
			level.Up = new(picture.Doubling)
		}
		l.Blocks = append(l.Blocks, level)
		s.stages = append(s.stages, stage{level.Res, level.Attn, level.Down, level.Up})
	}
	return s
}
