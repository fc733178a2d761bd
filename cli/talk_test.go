package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo"
)

// A conversation has the variables of --template-var.
func TestVariablesOfAConversation(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := fs.ReadFile(demo.Text(), name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(
		"{% if not loud %}{{ raise_exception('it is quiet') }}{% endif %}"+
			"{{ messages[0].content }}"), 0o600))
	ask := func(more ...string) (string, error) {
		args := append([]string{"chat", dir, "--max-tokens", "4", "--steps", "1"}, more...)
		return runCommand(t, "Lily had a\n", args...)
	}
	text, err := ask()
	require.ErrorContains(t, err, "1 line of standard input failed") // the template's error is said
	require.Empty(t, text)
	text, err = ask("--template-var", "loud=true")
	require.NoError(t, err)
	require.NotEmpty(t, text)
	_, err = ask("--template-var", "loud")
	require.ErrorContains(t, err, "want NAME=VALUE")
}
