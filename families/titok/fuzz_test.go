package titok_test

import (
	"testing"

	"unmask/testkit/parity"
)

func FuzzConfig(f *testing.F) {
	parity.FuzzConfig(f, parity.Open(f, "titok-bert-tiny"), parity.LoadDenoiser,
		`{"model": {"generator": {"model_type": "UViT", "num_attention_heads": 1e30}}}`,
		`{"model": {"generator": {"hidden_size": -1, "num_attention_heads": 16, "image_seq_len": {}}}}`,
		`{"model": []}`, "\x00")
}
