package judges_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/research/judges"
	"unmask/weights/gguf"
)

// A folder that a GGUF file would make another model of is refused, and nothing is left: one with
// blocks, which no key of Dream's says; one that the loader refuses; and one whose tokenizer
// changes texts in a way that has no key. Others give the bytes of gguf.Convert.
func TestToGGUF(t *testing.T) {
	words, err := os.ReadFile("../../tokenizers/testdata/llada.json")
	require.NoError(t, err)
	for _, c := range []struct{ pack, config, old, new, want string }{
		{"dream-tiny", `"block_size": 4,`, "", "", "block is 0 in a GGUF file, want 4"},
		{"dream-tiny", `"partial_rotary_factor": 0.5,`, "", "", "llama: config.json: " +
			"partial_rotary_factor is 0.5, want 1: this network computes no other"},
		{"llada-tiny", `"activation_type": "gelu",`, "", "", "llama: config.json: " +
			`activation_type is "gelu", want "silu": this network computes no other`},
		{"llada-tiny", "", `"normalizer": null`, `"normalizer": {"type": "Lowercase"}`,
			`tokenizer.json: "Hello HELLO world" has other tokens in a GGUF file, want a tokenizer that ` +
				"it can hold"},
		{"llada-tiny", "", `"single_word": false`, `"single_word": true`, "has other tokens in a GGUF"},
		{"llada-tiny", "", "", "", ""},
		{"dream-tiny", "", "", "", ""},
	} {
		dir, out := t.TempDir(), t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("../../testdata/packs/"+c.pack)))
		config, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		text := string(config)
		if key, _, ok := strings.Cut(c.config, ": "); ok {
			text = strings.Replace(strings.ReplaceAll(text, key, `"was"`), "{", "{"+c.config, 1)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
		if c.pack == "llada-tiny" {
			require.Contains(t, string(words), c.old)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"),
				[]byte(strings.ReplaceAll(string(words), c.old, c.new)), 0o600))
		}
		file := filepath.Join(out, "m.gguf")
		err = judges.ConvertToGGUF(t.Context(), dir, file, "q8_0")
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			left, err := os.ReadDir(out)
			require.NoError(t, err)
			require.Empty(t, left)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, gguf.Convert(t.Context(), dir, file+".plain", "q8_0"))
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		want, err := os.ReadFile(file + ".plain")
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s: other bytes", c.pack)
	}
}
