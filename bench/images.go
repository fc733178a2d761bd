package bench

import (
	"unmask/media/codecs/vqgan"
	"unmask/model"
)

// imageMeasurements returns ViT20, with one sequence and with eight, and the decoder for one
// image's codes.
func imageMeasurements() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		out = append(out,
			Measurement{"forward/vit20/" + p.String(),
				func(s *Suite) (work, error) { return s.measureForward("vit20", p, 1) }},
			Measurement{"forward/vit20x8/" + p.String(),
				func(s *Suite) (work, error) { return s.measureForward("vit20", p, 8) }})
	}
	return append(out, Measurement{"decode/256", (*Suite).measureDecoder},
		Measurement{"sound/5s", (*Suite).measureSound})
}

// decodeOps is the operations of the convolutions of MAGE's VQGAN decoder, counted layer by layer.
// At a doubled image's windows, 4 of 9 pixels count, because the others are equal to these.
const decodeOps = 159_702_319_104

// measureDecoder runs the VQGAN's decoder at its published size for one image.
func (s *Suite) measureDecoder() (work, error) {
	s.dropNetwork()
	src, err := sourceOf("vqgan")
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
	return work{run: func() error { return m.Decode(pixels, codes) }, cost: cost{ops: decodeOps}}, nil
}
