package bench

import (
	"context"
	"fmt"

	"unmask/media/codecs/higgs"
	"unmask/model"
)

// soundConfig are the strides of the Higgs Audio v2 tokenizer's decoder; a frame is 960 samples.
const soundConfig = `{"sample_rate":24000,"acoustic_model_config":{"upsampling_ratios":[8,5,4,2,3]}}`

const soundFrames = 125 // five seconds

// measureSound runs the decoder of OmniVoice's voice at its published size.
func (s *Suite) measureSound() (work, error) {
	s.dropNetwork()
	tensors, ops := soundTensors()
	src, err := tensors.parse("higgs", soundConfig)
	if err != nil {
		return work{}, err
	}
	codec, err := higgs.Load(src, model.Options{Backend: s.Device})
	if err != nil {
		return work{}, err
	}
	codes := make([]int32, soundFrames*codec.Codebooks())
	for i := range codes {
		codes[i] = int32(37 * i % codec.Codes())
	}
	run := func() error {
		return codec.Decode(context.Background(), codes, func([]float32) error { return nil })
	}
	return work{run: run, cost: cost{ops: ops}}, nil
}

// soundTensors returns random weights, and the operations of the matrices and convolutions. What
// windows compute twice is not counted, nor are activations.
func soundTensors() (tensors, float64) {
	var t tensors
	ops := 0.0
	rows := soundFrames
	layer := func(name string, out int, shape ...int) { // a matrix or convolution, with its biases
		t.addRandom(name+".weight", shape...)
		t.addRandom(name+".bias", out)
		products := float64(rows)
		for _, n := range shape {
			products *= float64(n)
		}
		ops += 2 * products
	}
	conv := func(name string, out, in, taps int) { layer(name, out, out, in, taps) }
	snake := func(name string, channels int) { t.addRandom(name+".alpha", 1, channels, 1) }
	for i := range 8 {
		name := fmt.Sprintf("quantizer.quantizers.%d.", i)
		t.addRandom(name+"codebook.embed", 1024, 64)
		layer(name+"project_out", 1024, 1024, 64)
	}
	layer("fc2", 256, 256, 1024)
	conv("acoustic_decoder.conv1", 1024, 256, 7)
	channels := 1024
	for i, ratio := range []int{8, 5, 4, 2, 3} {
		name := fmt.Sprintf("acoustic_decoder.block.%d.", i)
		snake(name+"snake1", channels)
		layer(name+"conv_t1", channels/2, channels, channels/2, 2*ratio)
		rows *= ratio
		channels /= 2
		for i := range 3 {
			unit := fmt.Sprintf("%sres_unit%d.", name, i+1)
			snake(unit+"snake1", channels)
			conv(unit+"conv1", channels, channels, 7)
			snake(unit+"snake2", channels)
			conv(unit+"conv2", channels, channels, 1)
		}
	}
	snake("acoustic_decoder.snake1", channels)
	conv("acoustic_decoder.conv2", 1, channels, 7)
	return t, ops
}
