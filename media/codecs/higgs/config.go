package higgs

import (
	"fmt"
	"slices"

	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// Bounds of config.json.
const (
	maxRatio = 64
	maxFrame = 1 << 14 // samples
	maxRate  = 1 << 18 // samples of a second
)

// newCodec returns the network without weights.
func newCodec(src *model.Source) (*Codec, error) {
	var f struct {
		Rate     int `json:"sample_rate"`
		Acoustic struct {
			Ratios []int `json:"upsampling_ratios"`
		} `json:"acoustic_model_config"`
	}
	if err := model.DecodeConfig(src, &f); err != nil {
		return nil, err
	}
	z := &weights.Sizes{Set: src.Set}
	const first, in = "quantizer.quantizers.0.", "acoustic_decoder.conv1.weight"
	codes := z.Dim(first+"codebook.embed", 2, 0)
	width := z.Dim(first+"codebook.embed", 2, 1)
	wide := z.Dim("fc2.weight", 2, 1)
	latent := z.Dim("fc2.weight", 2, 0)
	channels := z.Dim(in, 3, 0)
	books := z.Count("quantizer.quantizers.", ".codebook.embed")
	ratios := f.Acoustic.Ratios
	c := &Codec{
		Quantizers: make([]quantizer, books),
		Narrow:     nn.NewLinear(wide, latent),
		In:         newConv(channels, latent, taps),
		Blocks:     make([]block, len(ratios)),
		rate:       f.Rate,
		frame:      1,
		window:     defaultWindow,
	}
	blocks := z.Count("acoustic_decoder.block.", ".snake1.alpha")
	switch {
	case z.Err != nil:
		return nil, z.Err
	case f.Rate < 1 || f.Rate > maxRate:
		return nil, fmt.Errorf("config.json: sample_rate is %d, want 1 to %d", f.Rate, maxRate)
	case len(ratios) != blocks || blocks < 1:
		return nil, fmt.Errorf("config.json: upsampling_ratios are %d, want %d, as there are blocks",
			len(ratios), max(blocks, 1))
	case blocks > 20 || channels%(1<<blocks) != 0: // each block halves the channels
		return nil, fmt.Errorf("tensor %q has %d channels, want a multiple of 2^%d", in, channels, blocks)
	}
	for i := range c.Quantizers {
		c.Quantizers[i] = quantizer{Embed: weights.Param{Shape: []int{codes, width}},
			Out: nn.NewLinear(width, wide)}
	}
	for i, r := range ratios {
		if r < 1 || r > maxRatio || c.frame*r > maxFrame {
			return nil, fmt.Errorf("config.json: upsampling_ratios has %d, want 1 to %d, and at most %d "+
				"together", r, maxRatio, maxFrame)
		}
		c.frame *= r
		c.Blocks[i] = newBlock(channels, r)
		channels /= 2
	}

	// From the last block to the first: how far a sample depends on the rows around it.
	reach := side
	for i := range slices.Backward(c.Blocks) {
		b := &c.Blocks[i]
		reach += side * (dilations[0] + dilations[1] + dilations[2])
		reach = (reach+b.ratio-1)/b.ratio + 1
		b.reach = reach
	}
	c.margin = reach + side
	c.Snake = newSnake(channels)
	c.Out = newConv(1, channels, taps)
	return c, nil
}

// newConv returns a convolution without weights.
func newConv(out, in, taps int) conv {
	return conv{Weight: weights.Param{Shape: []int{out, in, taps}},
		Bias: weights.Param{Shape: []int{out}}}
}

// newSnake returns an activation of so many channels without weights.
func newSnake(channels int) snake {
	return snake{Alpha: weights.Param{Shape: []int{1, channels, 1}}}
}

// newBlock returns a block without weights that makes a sound ratio times as long.
func newBlock(in, ratio int) block {
	out := in / 2
	residual := func() unit {
		return unit{
			Snake1: newSnake(out),
			Wide:   newConv(out, out, taps),
			Snake2: newSnake(out),
			Narrow: newConv(out, out, 1),
		}
	}
	b := block{
		Snake: newSnake(in),
		Up:    newConv(in, out, 2*ratio),
		Unit1: residual(),
		Unit2: residual(),
		Unit3: residual(),
		ratio: ratio,
	}
	b.Up.Bias.Shape = []int{out}
	return b
}
