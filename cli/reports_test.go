package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo"
	"unmask/internal/textfile"
)

// runCommand runs a command line with an input, and returns its standard output and its error.
func runCommand(t *testing.T, input string, args ...string) (string, error) {
	dir := t.TempDir()
	name := filepath.Join(dir, "in")
	require.NoError(t, os.WriteFile(name, []byte(input), 0o600))
	in, err := os.Open(name)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	defer out.Close()
	before, shown := os.Stdin, os.Stdout
	defer func() { os.Stdin, os.Stdout = before, shown }()
	os.Stdin, os.Stdout = in, out
	root := newRoot()
	root.SetArgs(args)
	failed := root.Execute()
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return string(text), failed
}

// talkingModel returns a folder of the embedded model with a chat template.
func talkingModel(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := fs.ReadFile(demo.Text(), name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"),
		[]byte("{{ messages[0].content }}"), 0o600))
	return dir
}

// No command makes a file or a folder named -: it is standard output or it is refused.
func TestDashIsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("texts.txt", []byte("Lily had a dog\n"), 0o600))
	for _, line := range []string{
		"text --prompt Lily --steps 2 --out -",
		"text --prompt Lily --steps 2 --json --out -",
		"text --prompt Lily --steps 2 --trace -",
		"image --steps 1 --out -",
		"image --steps 1 --sheet -",
		"image --steps 1 --gif -",
		"embed texts.txt --out -",
		"man -",
	} {
		_, err := runCommand(t, "", strings.Fields(line)...)
		require.ErrorContains(t, err, "want a", line)
		require.Regexp(t, `is "?-`, err.Error())
		_, err = os.Lstat("-")
		require.ErrorIs(t, err, os.ErrNotExist, line)
	}
}

// A text from standard input or a file has the same ids with a byte order mark and with the line's
// end of Windows.
func TestTextsOfWindows(t *testing.T) {
	model := talkingModel(t)
	t.Chdir(t.TempDir())
	text := func(input string, args ...string) string {
		common := "text --length 24 --steps 2 --json --threads 1 --model"
		args = append(append(strings.Fields(common), model), args...)
		out, err := runCommand(t, input, args...)
		require.NoError(t, err, "%q %q", input, args)
		ids, _, _ := strings.Cut(out[strings.Index(out, `"ids"`):], "]")
		return ids
	}
	want := text("Lily had a\n", "--prompt", "-")
	for _, input := range []string{"Lily had a\r\n", textfile.Mark + "Lily had a", "Lily had a"} {
		require.Equal(t, want, text(input, "--prompt", "-"), "%q", input)
		require.Equal(t, want, text(input, "-"), "%q", input)
	}
	require.NotEqual(t, want, text("Lily had a\n\n", "--prompt", "-"))

	const messages = `[{"role": "user", "content": "Tell me a story."}]`
	const schema = `{"type": "boolean"}`
	for _, mark := range []string{"", textfile.Mark} {
		require.NoError(t, os.WriteFile("messages"+mark, []byte(mark+messages), 0o600))
		require.NoError(t, os.WriteFile("schema"+mark, []byte(mark+schema), 0o600))
	}
	require.Equal(t, text("", "--messages", "messages"),
		text("", "--messages", "messages"+textfile.Mark))
	require.Equal(t, text("", "--prompt", "Lily", "--schema", "schema"),
		text("", "--prompt", "Lily", "--schema", "schema"+textfile.Mark))
}

// A conversation from a pipe ends with an error if a line of it had no answer; the other lines are
// answered all the same. A last line that ends with a backslash is one.
func TestPipesOfAConversation(t *testing.T) {
	model := talkingModel(t)
	talk := func(input string) (string, error) {
		return runCommand(t, input, "chat", model, "--steps", "2", "--max-tokens", "8", "--threads", "1")
	}
	want, err := talk("Tell me a story.\n")
	require.NoError(t, err)
	require.NotEmpty(t, want)
	for _, bad := range []string{"\xff\xfea\n", "/load no-such-file\n", "/what\n",
		strings.Repeat("the frog ", 3000) + "\n"} {
		out, err := talk(bad + "Tell me a story.\n")
		require.ErrorContains(t, err, "1 line of standard input failed")
		require.NotEmpty(t, out)
	}
	out, err := talk(`Tell me a story.\`)
	require.NoError(t, err)
	require.Equal(t, want, out)
}

// Every line of a table has as many columns, whatever a record's name has. A text that is not UTF-8
// has a line too, and the others are answered.
func TestTablesOfAnyNames(t *testing.T) {
	proteins, err := filepath.Abs("../testdata/packs/esm-tiny")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.fasta", []byte(">one\tsample 7\nMKTA\n>two\nGAVLW\n>bad\nA\xffC\n"),
		0o600))
	columns := func(args ...string) map[int]bool {
		out, _ := runCommand(t, "", append([]string{"score", "--model", proteins, "--threads", "1"},
			args...)...)
		found := map[int]bool{}
		for line := range strings.Lines(out) {
			found[strings.Count(line, "\t")] = true
		}
		return found
	}
	require.Equal(t, map[int]bool{2: true}, columns("a.fasta"))

	require.NoError(t, os.WriteFile("texts.txt", []byte("MKTA\nA\xffC\nGG\n"), 0o600))
	for _, args := range [][]string{
		{"embed", "--model", proteins, "texts.txt"},
		{"score", "--model", proteins, "texts.txt", "--json"},
	} {
		out, err := runCommand(t, "", append(args, "--threads", "1")...)
		require.ErrorContains(t, err, "want UTF-8")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(t, lines, 3)
		require.Contains(t, lines[1], `"error":"byte 1 is 0xff, want UTF-8"`)
		require.NotContains(t, lines[0]+lines[2], "error")
	}
}

// Times may not be negative.
func TestNegativeTimes(t *testing.T) {
	for _, line := range []string{"serve --drain -1s", "tune --budget -1s", "tune --limit -1m",
		"reproduce --decide -1h", "worker x --patience -1m"} {
		_, err := runCommand(t, "", strings.Fields(line)...)
		require.ErrorContains(t, err, `"-1`, line)
		require.ErrorContains(t, err, "want a time", line)
	}
}
