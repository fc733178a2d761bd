package gpt2

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/testkit/parity"
)

// Any config.json beside valid tensors gives sizes that fit them, or a one-line error.
func FuzzConfig(f *testing.F) {
	p := parity.Open(f, "gpt2-tiny")
	set, err := p.Set.Rebase(anchor, "", "transformer.")
	require.NoError(f, err)
	want, err := sizesFromTensors(set)
	require.NoError(f, err)
	f.Add(p.Config)
	f.Add([]byte(`{"n_head": 4, "layer_norm_epsilon": 1e-3, "activation_function": "relu", "n_inner": null}`))
	f.Add([]byte(`{"n_head": 4, "n_ctx": -1}`))
	f.Add([]byte(`{"model_type": "llama", "n_head": 2147483648}`))
	f.Add([]byte(`{"n_embd": [[[[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := readConfig(&model.Source{Config: data, Set: set}, set)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Zero(t, c.Hidden%c.Heads)
		require.True(t, c.Eps > 0 && c.Eps < 1)
		want.Heads, want.Eps, want.Act = c.Heads, c.Eps, c.Act // what tensors do not show
		require.Equal(t, want, c)
	})
}
