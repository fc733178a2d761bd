package amused_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
)

func TestBadConfigs(t *testing.T) {
	parity.CheckRefused(t, open, "amused-512-tiny",
		[3]string{`"num_attention_heads": 4`, `"num_attention_heads": 5`,
			"num_attention_heads is 5, want a divisor of the width 32"},
		[3]string{`"block_num_heads": 6`, `"block_num_heads": 0`,
			"block_num_heads is 0, want a divisor of the width 36"},
		[3]string{`"sample_size": 8`, `"sample_size": 7`,
			"sample_size is 7, want 1 to 512, even where the grid is halved"},
		[3]string{`"use_bias": false`, `"use_bias": true`, "use_bias is true, want false"},
	)
}

// The run is that of the pipeline's scheduler.
func TestScheduler(t *testing.T) {
	for _, c := range []struct{ name, settings, recipe, fails string }{
		{"cosine", `{"mask_token_id": 63, "masking_schedule": "cosine"}`, "schedule=amused", ""},
		{"linear", `{"mask_token_id": 63, "masking_schedule": "linear"}`, "schedule=linear", ""},
		{"none", `{}`, "schedule=amused", ""},
		{"another mask", `{"mask_token_id": 62}`, "", "mask_token_id is 62, want 63, the last embedding"},
		{"another", `{"masking_schedule": "sine"}`, "", `masking_schedule is "sine", want cosine or linear`},
		{"no JSON", `{`, "", "scheduler_config.json: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS("../../testdata/packs/amused-256-tiny")))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "scheduler", "scheduler_config.json"),
				[]byte(c.settings), 0o600))
			src, err := model.Open(dir)
			require.NoError(t, err)
			defer src.Set.Close()
			m, err := model.Load(src, model.Options{Backend: plain.New()})
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.Contains(t, m.Recipe, c.recipe)
		})
	}
}
