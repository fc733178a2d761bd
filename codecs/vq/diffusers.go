package vq

import (
	"fmt"

	"unmask/nn/picture"
)

// diffusers is the VQModel of diffusers as used by aMUSEd (diffusers,
// models/autoencoders/vq_model.py): no attention, plain distances between codes, colours 0 to 1.
type diffusers struct {
	*Model  `weight:""`
	Encoder diffusersSide `weight:"encoder"`
	Decoder diffusersSide `weight:"decoder"`
}

type diffusersSide struct {
	ConvIn  picture.Conv      `weight:"conv_in"`
	Down    []diffusersLevel  `weight:"down_blocks"`
	Up      []diffusersLevel  `weight:"up_blocks"`
	Mid     []*resBlock       `weight:"mid_block.resnets"`
	NormOut picture.GroupNorm `weight:"conv_norm_out"`
	ConvOut picture.Conv      `weight:"conv_out"`
}

type diffusersLevel struct {
	Res  []*resBlock       `weight:"resnets"`
	Down *picture.Halving  `weight:"downsamplers.0.conv"`
	Up   *picture.Doubling `weight:"upsamplers.0.conv"`
}

// diffusers makes the network.
func (b *builder) diffusers() (*Model, any) {
	m := &Model{}
	root := &diffusers{Model: m}
	m.encoder = b.diffusersSide(&root.Encoder, "encoder.", "down_blocks")
	m.decoder = b.diffusersSide(&root.Decoder, "decoder.", "up_blocks")
	m.decoder.midBefore = true
	b.chain(m.encoder)
	b.chain(m.decoder)
	b.ends(m)
	return m, root
}

func (b *builder) diffusersSide(d *diffusersSide, p, blocks string) *side {
	d.ConvIn, d.ConvOut = b.conv(p+"conv_in"), b.conv(p+"conv_out")
	const shortcut = "conv_shortcut"
	for i := range b.Count(p+"mid_block.resnets.", ".conv1.weight") {
		d.Mid = append(d.Mid, b.res(fmt.Sprintf("%smid_block.resnets.%d", p, i), shortcut))
	}
	s := &side{in: &d.ConvIn, out: &d.ConvOut, norm: &d.NormOut, mid: stage{res: d.Mid}}
	var levels []diffusersLevel
	for i := range b.Count(p+blocks+".", ".resnets.0.conv1.weight") {
		name, level := fmt.Sprintf("%s%s.%d", p, blocks, i), diffusersLevel{}
		for j := range b.Count(name+".resnets.", ".conv1.weight") {
			level.Res = append(level.Res, b.res(fmt.Sprintf("%s.resnets.%d", name, j), shortcut))
		}
		if b.Has(name + ".downsamplers.0.conv.weight") {
			level.Down = new(picture.Halving)
		}
		if b.Has(name + ".upsamplers.0.conv.weight") {
			level.Up = new(picture.Doubling)
		}
		levels = append(levels, level)
		s.stages = append(s.stages, stage{res: level.Res, down: level.Down, up: level.Up})
	}
	if blocks == "down_blocks" {
		d.Down = levels
	} else {
		d.Up = levels
	}
	return s
}
