package halton_test

import (
	"testing"

	"unmask/testkit/parity"
)

func FuzzConfig(f *testing.F) {
	parity.FuzzConfig(f, open(f, "halton-tiny"), parity.LoadDenoiser,
		`{"num_attention_heads": 0}`, `{"num_attention_heads": 240}`,
		`{"num_attention_heads": -9223372036854775808}`, `{"num_attention_heads": "5"`)
}
