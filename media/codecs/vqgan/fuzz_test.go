package vqgan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/media/codecs/vqgan"
	"unmask/model"
	"unmask/testkit/parity"
)

// Any config.json gives possible sizes, or a one-line error.
func FuzzConfig(f *testing.F) {
	f.Add(parity.Open(f, "mage-tiny").Config)
	f.Add([]byte(`{"grid": 16, "vqgan": {"ch": 32, "ch_mult": [1, 2147483648]}}`))
	f.Add([]byte(`{"grid": 4611686018427387904, "vqgan": {"ch": 32, "ch_mult": [1, 1, 1, 1, 1, 1, 1, 1]}}`))
	f.Add([]byte(`{"grid": 16, "vqgan": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := vqgan.ReadConfig(&model.Source{Config: data})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.True(t, c.Side() >= 1 && c.Side() <= 8192, "%d pixels", c.Side())
		require.NotEmpty(t, c.ChMult)
	})
}
