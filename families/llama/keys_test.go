package llama_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every key of a family's config.json, as its class or its authors write it, is read, refused or
// known to be harmless: none of them is unknown. A key that is unknown is said.
func TestConfigKeys(t *testing.T) {
	data, err := os.ReadFile("../../model/testdata/config_keys.json")
	require.NoError(t, err)
	var classes map[string]map[string]any
	require.NoError(t, json.Unmarshal(data, &classes))
	for _, c := range []struct{ pack, class string }{
		{"llada-tiny", "llada"}, {"dream-tiny", "dream"}, {"dream-tiny", "qwen2"}, {"sdar-tiny", "sdar"},
		{"sdar-tiny", "qwen3"}, {"sdar-tiny", "llama"}, {"llada2-moe-tiny", "llada2-moe"},
		{"nemotron-labs-tiny", "ministral3"}, {"wedlm-8b-tiny", "qwen3"}, {"sdar-moe-tiny", "qwen3-moe"},
		{"llada-moe-tiny", "llada-moe"}, {"rnd1-tiny", "rnd1"}, {"coda-tiny", "coda"},
	} {
		t.Run(c.pack+"/"+c.class, func(t *testing.T) {
			keys := classes[c.class]
			require.NotEmpty(t, keys)
			l, err := loadMissing(t, c.pack, keys)
			require.NoError(t, err)
			require.NotContains(t, strings.Join(l.Info.Notes, "; "), "not known, and without effect")
			l, err = loadMissing(t, c.pack, map[string]any{"logit_bend": 0.5})
			require.NoError(t, err)
			require.Contains(t, l.Info.Notes,
				"config.json: logit_bend not known, and without effect")
		})
	}
}
