package amused_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
)

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"num_attention_heads": 4`, `"num_attention_heads": 5`,
			"num_attention_heads is 5, want a divisor of the width 32"},
		{`"block_num_heads": 6`, `"block_num_heads": 0`,
			"block_num_heads is 0, want a divisor of the width 36"},
		{`"sample_size": 8`, `"sample_size": 7`,
			"sample_size is 7, want 1 to 512, even where the grid is halved"},
		{`"use_bias": false`, `"use_bias": true`, "use_bias is true, want false"},
	} {
		p := open(t, "amused-512-tiny")
		require.Contains(t, string(p.Config), c.from)
		p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
		_, err := model.Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}
