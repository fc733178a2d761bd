package omnivoice_test

import (
	"testing"

	"unmask/testkit/parity"
)

func FuzzConfig(f *testing.F) {
	parity.FuzzConfig(f, parity.Open(f, "omnivoice-tiny"), parity.LoadDenoiser,
		`{"model_type": "omnivoice", "num_audio_codebook": 8, "audio_vocab_size": 65,
			"audio_mask_id": 64, "llm_config": null}`,
		`{"model_type": "omnivoice", "num_audio_codebook": 8, "audio_vocab_size": 65,
			"audio_mask_id": 64, "llm_config": {"hidden_size": 48, "rope_parameters": {"rope_theta": 1e309}}}`,
		`{"model_type": "omnivoice", "num_audio_codebook": -8, "llm_config": []}`)
}
