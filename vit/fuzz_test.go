package vit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/testkit/parity"
)

// Any config.json beside valid tensors gives possible sizes, or a one-line error.
func FuzzConfig(f *testing.F) {
	p := parity.Open(f, "mage-tiny")
	f.Add(p.Config)
	f.Add([]byte(`{"embed_dim": 64, "depth": 1048576, "num_heads": 5, "decoder_embed_dim": 2147483648}`))
	f.Add([]byte(`{"embed_dim": -64, "grid": 4.0}`))
	f.Add([]byte(`{"embed_dim": "64"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readConfig(&model.Source{Config: data, Set: p.Set}, p.Set)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Zero(t, c.Hidden%c.Heads)
		require.Zero(t, c.DecHidden%c.DecHeads)
		require.LessOrEqual(t, c.Depth+c.DecDepth, len(p.Set.Names()))
		require.NoError(t, c.checkTensors(p.Set))
	})
}
