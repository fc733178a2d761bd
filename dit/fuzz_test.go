package dit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/testkit/parity"
)

// Any config.json beside valid tensors gives sizes that fit them, or a one-line error.
func FuzzConfig(f *testing.F) {
	p := parity.Open(f, "sdtt-tiny")
	set, err := p.Set.Rebase(anchor)
	require.NoError(f, err)
	f.Add(p.Config)
	f.Add([]byte(`{"hidden_dim": 64, "n_heads": 4, "n_blocks": 3, "cond_dim": 16, "model_length": 48, "vocab_size": 101}`))
	f.Add([]byte(`{"model": {"n_heads": 5, "length": 2147483648}, "mask_index": 101}`))
	f.Add([]byte(`{"model": {"hidden_size": -64, "n_heads": 3.5}, "tokenizer": {"name": 1}}`))
	f.Add([]byte("\ufeff[null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, notes, err := readConfig(&model.Source{Config: data, Set: set}, set)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NoError(t, c.checkSizes())
		require.LessOrEqual(t, c.Length, maxLength)
		c.Length, c.TimeConditioned = 48, false // no tensor depends on these
		require.Equal(t, Config{Hidden: 64, Heads: 4, Blocks: 3, Cond: 16, MLP: 256, Length: 48,
			Vocab: 101}, c)
		require.NotContains(t, strings.Join(notes, ""), "\n")
	})
}
