package vq_test

import (
	"testing"

	"unmask/model"
	"unmask/testkit/parity"
)

func FuzzConfig(f *testing.F) {
	load := func(src *model.Source, o model.Options) error {
		_, err := model.LoadCodec(src, o)
		return err
	}
	parity.FuzzConfig(f, parity.OpenFolder(f, "amused-256-tiny", "vqvae"), load,
		`{"_class_name": "VQModel", "norm_num_groups": 0, "sample_size": 8}`,
		`{"_class_name": "VQModel", "norm_num_groups": 32, "grid": 4294967296}`,
		`{"_class_name": 3}`)
}
