package amused_test

import (
	"testing"

	"unmask/testkit/parity"
)

func FuzzConfig(f *testing.F) {
	parity.FuzzConfig(f, open(f, "amused-512-tiny"), parity.LoadDenoiser,
		`{"num_attention_heads": 4, "block_num_heads": 6, "sample_size": 9223372036854775807}`,
		`{"num_attention_heads": 4, "block_num_heads": 36, "sample_size": 2, "layer_norm_eps": -1}`,
		`{"block_out_channels": [36]}`)
}
