package bench

import (
	"fmt"

	"unmask/codecs/vqgan"
	"unmask/model"
)

// images returns ViT20, with one sequence and with eight, and the decoder for one image's codes.
func images() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		out = append(out,
			Measurement{"forward/vit20/" + p.String(),
				func(s *Suite) (work, error) { return s.forward("vit20", p, 1) }},
			Measurement{"forward/vit20x8/" + p.String(),
				func(s *Suite) (work, error) { return s.forward("vit20", p, 8) }})
	}
	return append(out, Measurement{"decode/256", (*Suite).decode},
		Measurement{"sound/5s", (*Suite).sound})
}

// MAGE's VQGAN: 256x256 pixels of 16x16 codes.
const vqganConfig = `{"grid":16,"vqgan":{"ch":128,"ch_mult":[1,1,2,2,4],"num_res_blocks":2,"z_channels":256,
	"embed_dim":256,"n_embed":1024,"out_ch":3}}`

// decode runs the VQGAN's decoder at its published size for one image.
func (s *Suite) decode() (work, error) {
	s.drop()
	tensors, ops := vqganTensors()
	src, err := tensors.source("vqgan", vqganConfig)
	if err != nil {
		return work{}, err
	}
	m, err := vqgan.Load(src, model.Options{Backend: s.Device})
	if err == nil {
		err = m.LoadDecoder()
	}
	if err != nil {
		return work{}, err
	}
	codes := make([]int32, 256)
	for i := range codes {
		codes[i] = int32(37 * i % 1024)
	}
	pixels := make([]float32, 3*256*256)
	return work{run: func() error { return m.Decode(pixels, codes) }, cost: cost{ops: ops}}, nil
}

// vqganTensors returns random weights, and the operations of the decoder's convolutions.
func vqganTensors() (tensors, float64) {
	t, ops := tensors{}, 0.0
	conv := func(name string, in, out, kernel, side int) {
		t.add(name+".weight", out, in, kernel, kernel)
		ops += 2 * float64(in*out*kernel*kernel*side*side)
	}
	norm := func(name string, channels int) { t.linear(name, channels) }
	block := func(name string, in, out, side int) {
		norm(name+".norm1", in)
		conv(name+".conv1", in, out, 3, side)
		norm(name+".norm2", out)
		conv(name+".conv2", out, out, 3, side)
		if in != out {
			conv(name+".nin_shortcut", out, out, 1, side)
		}
	}
	mults := []int{1, 1, 2, 2, 4}
	middle := func(name string) {
		block(name+".block_1", 512, 512, 16)
		block(name+".block_2", 512, 512, 16)
	}
	// The decoder; its operations are counted.
	conv("vqgan.decoder.conv_in", 256, 512, 3, 16)
	t.add("vqgan.decoder.conv_in.bias", 512)
	middle("vqgan.decoder.mid")
	norm("vqgan.decoder.norm_out", 128)
	in, side := 512, 16
	for level := len(mults) - 1; level >= 0; level-- {
		out := 128 * mults[level]
		for b := range 2 {
			block(fmt.Sprintf("vqgan.decoder.up.%d.block.%d", level, b), in, out, side)
			in = out
		}
		if level > 0 {
			side *= 2
			name := fmt.Sprintf("vqgan.decoder.up.%d.upsample.conv", level)
			conv(name, in, in, 3, side)
			ops -= 2 * float64(5*in*in*side*side) // a doubled image's windows have four different pixels
			t.add(name+".bias", in)
		}
	}
	conv("vqgan.decoder.conv_out", 128, 3, 3, side)
	t.add("vqgan.decoder.conv_out.bias", 3)
	counted := ops
	// The encoder and the codebook, which must be in the file too.
	conv("vqgan.encoder.conv_in", 3, 128, 3, side)
	in = 128
	for level, mult := range mults {
		for b := range 2 {
			block(fmt.Sprintf("vqgan.encoder.down.%d.block.%d", level, b), in, 128*mult, side)
			in = 128 * mult
		}
	}
	middle("vqgan.encoder.mid")
	norm("vqgan.encoder.norm_out", 512)
	conv("vqgan.encoder.conv_out", 512, 256, 1, 16)
	t.add("vqgan.encoder.conv_out.bias", 256)
	t.add("vqgan.quantize.embedding.weight", 1024, 256)
	return t, counted
}
