package latents_test

import (
	"testing"

	"unmask/media/codecs/latents"
	"unmask/model"
	"unmask/testkit/parity"
)

func FuzzConfig(f *testing.F) {
	load := func(src *model.Source, o model.Options) error {
		_, err := latents.Load(src, o)
		return err
	}
	parity.FuzzConfig(f, parity.Open(f, "tatitok-tiny"), load,
		`{"model": {"vq_model": {"vit_enc_model_size": "large", "vit_dec_model_size": "small"}}}`,
		`{"model": {"vq_model": {"vit_enc_model_size": "base", "vit_dec_model_size": "large", "is_legacy": 3}}}`,
		`{}`)
}
