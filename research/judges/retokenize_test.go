package judges_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/research/judges"
)

// The token between a judge's texts is the one that its files call the end, or GPT-2's class does.
func TestEndOfAJudgesTexts(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         int32
	}{
		{"named", `{"tokenizer_class": "GPT2Tokenizer", "eos_token": "<end>"}`, 2},
		{"the class's", `{"tokenizer_class": "GPT2Tokenizer"}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "testdata", "packs",
				"gpt2-tiny"))))
			for name, text := range map[string]string{"vocab.json": `{"a": 0, "<|endoftext|>": 1, "<end>": 2}`,
				"merges.txt": "#version: 1\n", "tokenizer_config.json": c.config} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			j, err := judges.LoadTextJudge(t.Context(), dir, judges.Options{Backend: plain.New()})
			require.NoError(t, err)
			r, err := j.Retokenizer()
			require.NoError(t, err)
			require.Equal(t, c.want, r.EOS)
		})
	}
}
