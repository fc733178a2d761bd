package unmask_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
)

// padRole says what a token is under a grammar of everything.
func padRole(t *testing.T, m *unmask.Model, pad int32) string {
	r := unmask.Request{Length: 24}
	r.Regex = `(?s:.)*`
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	l := q.Language
	after := l.Next(l.Start, pad)
	switch {
	case slices.Contains(m.Spec().NeverDrawn, pad):
		require.Negative(t, after)
		return "banned"
	case after < 0:
		return "none"
	case after == l.End():
		return "end"
	case m.Text.Decode([]int32{pad}) == "":
		require.Equal(t, l.Start, after)
		return "empty"
	}
	return "text"
}

// loadPack loads a pack, or the GGUF file in it.
func loadPack(t *testing.T, path string) *unmask.Model {
	if strings.HasSuffix(path, "-gguf") {
		path = filepath.Join(path, "model.gguf")
	}
	m, err := unmask.Load(t.Context(), path, unmask.Options{})
	require.NoError(t, err, path)
	return m
}

// What the padding token is under a grammar, of each family whose pack has a tokenizer: the empty
// word, an end where the files say so, or banned where the family bans special tokens.
func TestPadsOfFamilies(t *testing.T) {
	for path, want := range map[string]struct {
		pad  int32
		role string
	}{
		"demo/text":                             {550, "empty"},
		"testdata/packs/bert-tiny":              {0, "banned"},
		"testdata/packs/albert-tiny":            {0, "banned"},
		"testdata/packs/roberta-tiny":           {1, "banned"},
		"testdata/packs/roberta-fairseq-tiny":   {1, "banned"},
		"testdata/packs/esm-tiny":               {1, "banned"},
		"testdata/packs/esmc-tiny":              {1, "banned"},
		"testdata/packs/esmc-pth-tiny":          {1, "banned"},
		"testdata/packs/esmc-transformers-tiny": {1, "banned"},
		"testdata/packs/genmol-tiny":            {3, "empty"},
		"testdata/packs/lfm2-diffusion-tiny":    {0, "empty"},
		"testdata/packs/lfm2-tiny-gguf":         {0, "empty"},
		"testdata/packs/llada-moe-tiny":         {100, "end"},
		"testdata/packs/llada-moe-bias-tiny":    {100, "end"},
		"testdata/packs/llada-moe-tiny-gguf":    {100, "end"},
		"testdata/packs/llada2-tiny-gguf":       {140, "end"},
		"testdata/packs/open-dcoder-tiny":       {100, "end"},
	} {
		require.Equal(t, want.role, padRole(t, loadPack(t, path), want.pad), path)
	}
}

// Which token pads, by the files: pad_token_id, else the tokenizer's. It is none if it is no
// special token of the vocabulary.
func TestPadIsReadFromTheFiles(t *testing.T) {
	const eos, pad, bos = 7, 0, 1
	files := filepath.Join("testdata", "packs", "lfm2-diffusion-tiny")
	for _, c := range []struct {
		config string // pad_token_id, "" for none
		token  string // of tokenizer_config.json, "" for none
		want   map[int32]string
	}{
		{"0", "<|pad|>", map[int32]string{pad: "empty", eos: "end", bos: "none"}},
		{"[1, 0]", "<|pad|>", map[int32]string{pad: "none", bos: "empty"}},
		{"null", "<|pad|>", map[int32]string{pad: "empty", bos: "none"}},
		{"", "<|pad|>", map[int32]string{pad: "empty"}},
		{"", "", map[int32]string{pad: "none"}},
		{"-1", "<|pad|>", map[int32]string{pad: "none"}},
		{"7", "<|pad|>", map[int32]string{pad: "none", eos: "end"}},
		{"100000", "<|pad|>", map[int32]string{pad: "none"}},
		{"40", "<|pad|>", map[int32]string{pad: "none", 40: "text"}},
	} {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(files)))
		setKey(t, filepath.Join(dir, "config.json"), "pad_token_id", c.config)
		token := ""
		if c.token != "" {
			token = `"` + c.token + `"`
		}
		setKey(t, filepath.Join(dir, "tokenizer_config.json"), "pad_token", token)
		m := loadPack(t, dir)
		for id, want := range c.want {
			require.Equal(t, want, padRole(t, m, id), "%+v: %d", c, id)
		}
	}
}

// setKey sets a key of a JSON file to a value, or removes it.
func setKey(t *testing.T, path, key, value string) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &keys))
	delete(keys, key)
	if value != "" {
		keys[key] = json.RawMessage(value)
	}
	data, err = json.Marshal(keys)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}
