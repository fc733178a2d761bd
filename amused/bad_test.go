package amused_test

import (
	"testing"

	"unmask/testkit/parity"
)

func TestBadConfigs(t *testing.T) {
	parity.Refused(t, open, "amused-512-tiny",
		[3]string{`"num_attention_heads": 4`, `"num_attention_heads": 5`,
			"num_attention_heads is 5, want a divisor of the width 32"},
		[3]string{`"block_num_heads": 6`, `"block_num_heads": 0`,
			"block_num_heads is 0, want a divisor of the width 36"},
		[3]string{`"sample_size": 8`, `"sample_size": 7`,
			"sample_size is 7, want 1 to 512, even where the grid is halved"},
		[3]string{`"use_bias": false`, `"use_bias": true`, "use_bias is true, want false"},
	)
}
