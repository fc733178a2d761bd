package maskgen_test

import (
	"testing"

	"unmask/testkit/parity"
)

func FuzzConfig(f *testing.F) {
	parity.FuzzConfig(f, parity.Open(f, "maskgen-tiny"), parity.LoadDenoiser,
		`{"model": {"maskgen": {"decoder_num_heads": 4, "sample_aesthetic_score": 1e309}}}`,
		`{"model": {"vq_model": {"text_context_length": 1}, "maskgen": {"decoder_num_heads": 48}}}`,
		`{"model": null}`)
}
