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
		in, err := os.CreateTemp(t.TempDir(), "in")
		require.NoError(t, err)
		defer in.Close()
		_, err = in.WriteString("Lily had a\n")
		require.NoError(t, err)
		_, err = in.Seek(0, 0)
		require.NoError(t, err)
		out, err := os.CreateTemp(t.TempDir(), "out")
		require.NoError(t, err)
		defer out.Close()
		before, shown := os.Stdin, os.Stdout
		defer func() { os.Stdin, os.Stdout = before, shown }()
		os.Stdin, os.Stdout = in, out
		root := newRoot()
		root.SetArgs(append([]string{"chat", dir, "--max-tokens", "4", "--steps", "1"}, more...))
		failed := root.Execute()
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		return string(text), failed
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
