package vq

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"unmask/nn/picture"
	"unmask/weights"
)

// builder makes a network without weights, with the shapes of its tensors.
type builder struct {
	weights.Sizes
	names map[string]string // of tensors in the file by tags, see weights.BindOptions
}

// tensorName returns the name in the file of what tags lead to.
func (b *builder) tensorName(tags ...string) string {
	for i, tag := range tags {
		if name, ok := b.names[tag]; ok {
			tags[i] = name
		}
	}
	return strings.Join(tags, ".")
}

// tensorShape returns the shape of a tensor, which must have `dims` dimensions. After an error it
// returns a shape that other layers accept, so that the first error is the one that is reported.
func (b *builder) tensorShape(name string, dims int) []int {
	shape := make([]int, dims)
	for i := range shape {
		shape[i] = b.Dim(name, dims, i)
		if b.Err != nil {
			return []int{picture.Groups, picture.Groups, 1, 1}[:dims]
		}
	}
	return shape
}

// channelCount returns n, and sets an error for a number of channels that group norms cannot have.
func (b *builder) channelCount(name string, n int) int {
	if b.Err == nil && n%picture.Groups != 0 {
		b.Err = fmt.Errorf("tensor %q has %d channels, want a multiple of %d", name, n, picture.Groups)
	}
	return n
}

// newConv returns a convolution with the shape of its tensor.
func (b *builder) newConv(name string) picture.Conv {
	s := b.tensorShape(name+".weight", 4)
	if b.Err == nil && (s[2] != s[3] || s[2] != 1 && s[2] != 3) {
		b.Err = fmt.Errorf("tensor %q has shape %v, want windows of 1x1 or 3x3", name+".weight", s)
	}
	return picture.NewConv(s[0], s[1], s[2])
}

// newResBlock returns a block with the shapes of its tensors.
func (b *builder) newResBlock(name string) *resBlock {
	name += ".conv1.weight"
	s := b.tensorShape(name, 4)
	in := b.channelCount(name, s[1])
	out := b.channelCount(name, s[0])
	r := &resBlock{
		Norm1: picture.NewGroupNorm(in),
		Conv1: picture.NewConv(out, in, 3),
		Norm2: picture.NewGroupNorm(out),
		Conv2: picture.NewConv(out, out, 3),
	}
	if in != out {
		r.Shortcut = picture.NewConv(out, in, 1)
	}
	return r
}

// newAttention returns an attention with the shape of its tensors.
func (b *builder) newAttention(name string) *picture.Attention {
	return picture.NewAttention(b.channelCount(name, b.tensorShape(name+".q.weight", 4)[0]))
}

// newLevel returns a level with the layers that the file has.
func (b *builder) newLevel(name string) *level {
	l := &level{}
	for i := range b.Count(b.tensorName(name, "resnets")+".", ".conv1.weight") {
		l.Res = append(l.Res, b.newResBlock(b.tensorName(name, "resnets", strconv.Itoa(i))))
	}
	for i := range b.Count(b.tensorName(name, "attentions")+".", ".q.weight") {
		l.Attn = append(l.Attn, b.newAttention(b.tensorName(name, "attentions", strconv.Itoa(i))))
	}
	if b.Has(b.tensorName(name, "downsamplers.0.conv", "weight")) {
		l.Down = new(picture.Downsampling)
	}
	if b.Has(b.tensorName(name, "upsamplers.0.conv", "weight")) {
		l.Up = new(picture.Upsampling)
	}
	return l
}

// newSide returns the encoder or the decoder, whose layers between fit each other.
func (b *builder) newSide(name, blocks string) (s side) {
	s.In = b.newConv(name + ".conv_in")
	s.Out = b.newConv(name + ".conv_out")
	s.Before = b.newResBlock(b.tensorName(name, "mid_block.resnets.0"))
	s.After = b.newResBlock(b.tensorName(name, "mid_block.resnets.1"))
	if b.names != nil { // LlamaGen's
		s.Attn = b.newAttention(b.tensorName(name, "mid_block.attentions.0"))
	}
	var levels []*level
	for i := range b.Count(b.tensorName(name, blocks)+".",
		b.tensorName("", "resnets", "0.conv1.weight")) {
		levels = append(levels, b.newLevel(b.tensorName(name, blocks, strconv.Itoa(i))))
	}
	if blocks == "down_blocks" {
		s.Down = levels
	} else {
		s.Up = levels
	}
	b.chainLevels(&s)
	return s
}

// chainLevels sets an error if consecutive blocks do not fit each other.
func (b *builder) chainLevels(s *side) {
	channels := s.In.Weight.Shape[0] // of the latest layer
	checkInput := func(what string, input int) {
		if b.Err == nil && input != channels {
			b.Err = fmt.Errorf("%s %d channels after a layer of %d, want the same", what, input, channels)
		}
	}
	for _, l := range s.allLevels() {
		for i, r := range l.Res {
			checkInput("a block takes", r.Conv1.Weight.Shape[1])
			channels = r.Conv1.Weight.Shape[0]
			if i < len(l.Attn) {
				checkInput("an attention has", l.Attn[i].Q.Weight.Shape[0])
			}
		}
		if l.Up != nil {
			*l.Up = picture.NewUpsampling(channels)
		}
		if l.Down != nil {
			*l.Down = picture.NewDownsampling(channels)
		}
	}
	s.Norm = picture.NewGroupNorm(channels)
	checkInput("the last convolution takes", s.Out.Weight.Shape[1])
}

// newModel returns the network, and sets an error if its sides do not fit each other.
func (b *builder) newModel() *Model {
	m := &Model{Encoder: b.newSide("encoder", "down_blocks"),
		Decoder: b.newSide("decoder", "up_blocks")}
	s := b.tensorShape("quantize.embedding.weight", 2)
	m.Codebook = picture.NewCodebook(s[0], s[1])
	m.QuantConv = b.newConv("quant_conv")
	m.PostConv = b.newConv("post_quant_conv")
	m.scale = 1
	halvings := 1
	for _, l := range m.Decoder.Up {
		if l.Up != nil {
			m.scale *= 2
		}
	}
	for _, l := range m.Encoder.Down {
		if l.Down != nil {
			halvings *= 2
		}
	}
	if b.Err != nil {
		return m
	}
	// what each is, and what it must be
	want := map[string][2]int{
		"encoder.conv_in's input":   {m.Encoder.In.Weight.Shape[1], 3},
		"decoder.conv_out's output": {m.Decoder.Out.Weight.Shape[0], 3},
		"quant_conv's input":        {m.QuantConv.Weight.Shape[1], m.Encoder.Out.Weight.Shape[0]},
		"quant_conv's output":       {m.QuantConv.Weight.Shape[0], s[1]},
		"post_quant_conv's input":   {m.PostConv.Weight.Shape[1], s[1]},
		"decoder.conv_in's input":   {m.Decoder.In.Weight.Shape[1], m.PostConv.Weight.Shape[0]},
		"the decoder's scale":       {m.scale, halvings},
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if pair := want[name]; pair[0] != pair[1] {
			b.Err = fmt.Errorf("%s: %d, want %d", name, pair[0], pair[1])
			return m
		}
	}
	return m
}
