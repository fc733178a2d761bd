package vq

import (
	"fmt"
	"slices"

	"unmask/nn/picture"
	"unmask/weights"
)

// builder makes networks without weights, with the shapes of their tensors.
type builder struct{ weights.Sizes }

// shape returns the shape of a tensor, which must have `dims` dimensions.
func (b *builder) shape(name string, dims int) []int {
	s := make([]int, dims)
	for i := range s {
		if s[i] = b.Dim(name, dims, i); b.Err != nil {
			return []int{picture.Groups, picture.Groups, 1, 1}[:dims]
		}
	}
	return s
}

// channels notes an error for a number of channels that group norms cannot have.
func (b *builder) channels(name string, n int) int {
	if b.Err == nil && n%picture.Groups != 0 {
		b.Err = fmt.Errorf("tensor %q has %d channels, want a multiple of %d", name, n, picture.Groups)
	}
	return n
}

// conv returns a convolution with the shape of its tensor.
func (b *builder) conv(name string) picture.Conv {
	s := b.shape(name+".weight", 4)
	if b.Err == nil && (s[2] != s[3] || s[2] != 1 && s[2] != 3) {
		b.Err = fmt.Errorf("tensor %q has shape %v, want windows of 1x1 or 3x3", name+".weight", s)
	}
	return picture.NewConv(s[0], s[1], s[2])
}

// res returns a residual block.
func (b *builder) res(name, shortcut string) *resBlock {
	s := b.shape(name+".conv1.weight", 4)
	in, out := b.channels(name+".conv1.weight", s[1]), b.channels(name+".conv1.weight", s[0])
	r := &resBlock{Norm1: picture.NewGroupNorm(in), Conv1: picture.NewConv(out, in, 3),
		Norm2: picture.NewGroupNorm(out), Conv2: picture.NewConv(out, out, 3)}
	if in != out {
		c := picture.NewConv(out, in, 1)
		if shortcut == "nin_shortcut" {
			r.NinShortcut, r.shortcut = c, &r.NinShortcut
		} else {
			r.ConvShortcut, r.shortcut = c, &r.ConvShortcut
		}
	}
	return r
}

// chain notes an error if consecutive blocks do not fit each other.
func (b *builder) chain(s *side) {
	list := slices.Clone(s.stages)
	if s.midBefore {
		list = slices.Insert(list, 0, s.mid)
	} else {
		list = append(list, s.mid)
	}
	now := s.in.Weight.Shape[0]
	for _, st := range list {
		for i, r := range st.res {
			if b.Err == nil && r.Conv1.Weight.Shape[1] != now {
				b.Err = fmt.Errorf("a block takes %d channels after one of %d, want the same",
					r.Conv1.Weight.Shape[1], now)
			}
			now = r.Conv1.Weight.Shape[0]
			if b.Err == nil && i < len(st.attn) && st.attn[i].Q.Weight.Shape[0] != now {
				b.Err = fmt.Errorf("an attention has %d channels after a block of %d, want the same",
					st.attn[i].Q.Weight.Shape[0], now)
			}
		}
		if st.up != nil {
			*st.up = picture.NewDoubling(now)
		}
		if st.down != nil {
			*st.down = picture.NewHalving(now)
		}
	}
	*s.norm = picture.NewGroupNorm(now)
	if b.Err == nil && s.out.Weight.Shape[1] != now {
		b.Err = fmt.Errorf("the last convolution takes %d channels after a block of %d, want the same",
			s.out.Weight.Shape[1], now)
	}
}

// ends makes the layers between the two sides, and notes an error if these do not fit.
func (b *builder) ends(m *Model) {
	s := b.shape("quantize.embedding.weight", 2)
	m.Codebook = picture.NewCodebook(s[0], s[1])
	m.QuantConv, m.PostConv = b.conv("quant_conv"), b.conv("post_quant_conv")
	down, up := 0, 0
	for _, st := range m.encoder.stages {
		if st.down != nil {
			down++
		}
	}
	for _, st := range m.decoder.stages {
		if st.up != nil {
			up++
		}
	}
	if b.Err != nil {
		return
	}
	z := m.encoder.out.Weight.Shape[0]
	want := map[string][2]int{
		"encoder.conv_in's input":   {m.encoder.in.Weight.Shape[1], 3},
		"decoder.conv_out's output": {m.decoder.out.Weight.Shape[0], 3},
		"quant_conv's input":        {m.QuantConv.Weight.Shape[1], z},
		"quant_conv's output":       {m.QuantConv.Weight.Shape[0], s[1]},
		"post_quant_conv's input":   {m.PostConv.Weight.Shape[1], s[1]},
		"decoder.conv_in's input":   {m.decoder.in.Weight.Shape[1], m.PostConv.Weight.Shape[0]},
		"the decoder's doublings":   {up, down},
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range want {
			if !yield(name) {
				return
			}
		}
	}) {
		if v := want[name]; v[0] != v[1] {
			b.Err = fmt.Errorf("%s: %d, want %d", name, v[0], v[1])
			return
		}
	}
}
