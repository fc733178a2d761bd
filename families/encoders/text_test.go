package encoders_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"

	"unmask/testkit/refusal"
)

func pack(t *testing.T, name string) *unmask.Model {
	t.Helper()
	m, err := unmask.Load(context.Background(), filepath.Join("..", "..", "testdata", "packs", name),
		unmask.Options{})
	require.NoError(t, err)
	return m
}

// The first and last token are put around every text, are not counted and are not shown.
func TestTokensAroundATextOfResidues(t *testing.T) {
	m := pack(t, "bert-tiny")
	tokens, err := m.Text.Infill("EV[3]Q", 8)
	require.NoError(t, err)
	require.Equal(t, []int32{2, 8, 22, 4, 4, 4, 18, 4, 4, 3}, tokens)
	require.Equal(t, "EV▯▯▯Q▯▯", m.Text.Decode(tokens))
	q, err := m.Prepare(t.Context(), unmask.Request{})
	require.NoError(t, err)
	require.Len(t, q.Known, 64)
	_, err = m.Prepare(t.Context(), unmask.Request{Length: 63})
	refusal.RequireText(t, err, "length is 63,")
	_, err = m.Prepare(t.Context(), unmask.Request{Prompt: "EVB"})
	refusal.RequireText(t, err, "prompt: text: character 3 is 'B'")
}

// A tokenizer.json of BERT's kind stands for vocab.txt.
func TestTokenizerFile(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join("..", "..", "testdata", "packs", "bert-tiny")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	words, err := os.ReadFile(filepath.Join(dir, "vocab.txt"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "vocab.txt")))
	vocab, added := map[string]int{}, []map[string]any{}
	for id, word := range strings.Fields(string(words)) {
		vocab[word] = id
		if strings.HasPrefix(word, "[") {
			added = append(added, map[string]any{"id": id, "content": word, "special": true,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
		}
	}
	file, err := json.Marshal(map[string]any{"added_tokens": added,
		"normalizer":    map[string]any{"type": "BertNormalizer", "lowercase": false},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"decoder":       map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model":         map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocab}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o666))
	for _, c := range []struct {
		config string
		want   []int32
	}{ // as AutoTokenizer of transformers 5.24 puts tokens around "E V"
		{`{}`, []int32{2, 8, 22, 4, 4, 4, 18, 4, 4, 3}},
		{`{"tokenizer_class": "BertTokenizer"}`, []int32{2, 8, 22, 4, 4, 4, 18, 4, 4, 3}},
		{`{"tokenizer_class": "PreTrainedTokenizerFast"}`, []int32{8, 22, 4, 4, 4, 18, 4, 4}},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(c.config),
			0o666))
		m, err := unmask.Load(context.Background(), dir, unmask.Options{})
		require.NoError(t, err)
		tokens, err := m.Text.Infill("E V[3]Q", 8)
		require.NoError(t, err)
		require.Equal(t, c.want, tokens, c.config)
		require.Equal(t, "E V ▯ ▯ ▯ Q ▯ ▯", m.Text.Decode(tokens))
	}
}

// Special tokens are never drawn, and known residues stay.
func TestGenerateDrawsResiduesOnly(t *testing.T) {
	for _, name := range []string{"bert-tiny", "roberta-fairseq-tiny", "esm-tiny", "albert-tiny"} {
		m := pack(t, name)
		tokens, err := m.Text.Infill("EVQ[40]SSV", 0)
		require.NoError(t, err)
		r := unmask.Request{Tokens: tokens, Overrides: unmask.Overrides{"steps": "4"}}
		for step, err := range unmask.Generate(context.Background(), m, r, 3) {
			require.NoError(t, err)
			for _, s := range step.Sequences {
				if !step.Done {
					continue
				}
				require.Regexp(t, "^EVQ[ACDEFGHIKLMNPQRSTVWYBUZO]{40}SSV$", m.Text.Decode(s.Tokens), name)
			}
		}
	}
}

func TestVocabulariesThatDoNotFit(t *testing.T) {
	for _, c := range []struct{ vocabulary, want string }{
		{"A\nC\nA\n", `vocab.txt: line 3 is "A", as line 1 is already`},
		{"A\n\nC\n", "vocab.txt: line 2 is empty"},
		{"[PAD]\n[MASK]\n", "vocab.txt: there are no tokens besides special ones"},
		{"\xff\n", "vocab.txt: byte 0 is 0xff, want UTF-8"},
		{"A\nC\n", "mask_token_id is missing, and the vocabulary has neither [MASK] nor <mask>"},
		{string(manyLines(26)), "vocab.txt has 26 tokens, want at most the 25 rows of the head"},
	} {
		dir := t.TempDir()
		from := os.DirFS(filepath.Join("..", "..", "testdata", "packs", "bert-tiny"))
		require.NoError(t, os.CopyFS(dir, from))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(c.vocabulary), 0o666))
		_, err := unmask.Load(context.Background(), dir, unmask.Options{})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

// A vocabulary may be shorter than the head, as padded heads are; a note says so.
func TestVocabularyShorterThanTheHead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "testdata", "packs",
		"bert-tiny"))))
	name := filepath.Join(dir, "vocab.txt")
	words, err := os.ReadFile(name)
	require.NoError(t, err)
	short := strings.TrimSuffix(string(words), "W\nY\n")
	require.NoError(t, os.WriteFile(name, []byte(short), 0o666))
	m, err := unmask.Load(context.Background(), dir, unmask.Options{})
	require.NoError(t, err)
	require.Contains(t, m.Info.Notes,
		"vocab.txt has 23 tokens for the 25 rows of the head: the others are never drawn")
}

func manyLines(n int) (lines []byte) {
	for i := range n {
		lines = append(lines, byte('!'+i), '\n')
	}
	return lines
}
