package tokenizers

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// safeFile returns the tokenizer.json of the pack, with some keys replaced.
func safeFile(t *testing.T, keys map[string]any) []byte {
	t.Helper()
	data, err := os.ReadFile("../testdata/packs/genmol-tiny/tokenizer.json")
	require.NoError(t, err)
	var file map[string]any
	require.NoError(t, json.Unmarshal(data, &file))
	for key, value := range keys {
		file[key] = value
	}
	data, err = json.Marshal(file)
	require.NoError(t, err)
	return data
}

// Every text of pieces comes back as it was, and a text with anything between pieces is refused.
func TestSafePieces(t *testing.T) {
	tok, err := Parse(safeFile(t, nil))
	require.NoError(t, err)
	pieces := []string{"C", "N", "Cl", "Br", "c", "n", "(", ")", "=", "#", ".", "1", "2", "%10", "%11",
		"[nH]", "[C@@H]", "[NH+]", "[O-]"}
	between := []string{" ", "H", "%", "X", "q", "\n", "é"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 20).Draw(t, "pieces"), "")
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, text, tok.Decode(ids))

		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		wrong := text[:cut] + rapid.SampledFrom(between).Draw(t, "between") + text[cut:]
		if len(regexp.MustCompile(`\[[^\]]*]`).FindAllString(wrong, -1)) == 0 {
			whole := strings.Join(safePieces.FindAllString(wrong, -1), "")
			_, err = tok.Encode(wrong)
			require.Equal(t, whole != wrong, err != nil, wrong)
		}
	})
}

// The file's own ids of special tokens, its pre-tokenizer and its decoder do not count.
func TestSafeFile(t *testing.T) {
	tok, err := Parse(safeFile(t, map[string]any{"pre_tokenizer": map[string]any{"type": "Nmt"}}))
	require.NoError(t, err)
	for id, text := range []string{"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"} {
		got, ok := tok.Special(text)
		require.True(t, ok)
		require.Equal(t, int32(id), got)
	}
	_, err = Parse(safeFile(t, map[string]any{"tokenizer_type": "wordpiece"}))
	require.ErrorContains(t, err, `tokenizer_type is "wordpiece", want bpe`)
	_, err = Parse(safeFile(t, map[string]any{"custom_pre_tokenizer": false}))
	require.ErrorContains(t, err, "BPEDecoder")
}
