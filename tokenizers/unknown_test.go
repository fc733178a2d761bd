package tokenizers

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// With the unknown token all texts have the ids of Hugging Face's tokenizers 0.23.3, also those
// that a file refuses otherwise. Files of kinds.json are of every model.
func TestUnknownAsTheLibrary(t *testing.T) {
	data, err := os.ReadFile("testdata/kinds.json")
	require.NoError(t, err)
	var files []struct {
		File  json.RawMessage
		Cases []struct {
			Text string
			IDs  [3][]int32
		}
	}
	require.NoError(t, json.Unmarshal(data, &files))
	refused := 0
	for n, f := range files {
		tok, err := Parse(f.File)
		if err != nil {
			continue
		}
		whole, unknown := WithUnknown(WithMask(tok, 1<<20, "▯"))
		for _, c := range f.Cases {
			makesSpecial := slices.ContainsFunc(slices.Concat(c.IDs[0], c.IDs[1]), func(id int32) bool {
				return id != unknown && IsSpecial(tok, id)
			})
			_, plainErr := tok.Encode(c.Text)
			ids, err := whole.Encode(c.Text)
			if makesSpecial || unknown == NoUnknown || len(c.Text) > MaxText {
				continue
			}
			require.NoError(t, err, "file %d: %q", n, c.Text)
			require.Equal(t, c.IDs[1], append([]int32{}, ids...), "file %d: %q", n, c.Text)
			if plainErr != nil {
				refused++
				require.Contains(t, ids, unknown)
			}
		}
	}
	require.Greater(t, refused, 10)
}

// A text that a tokenizer takes has the same ids with the unknown token, and one that it refuses
// has at least one unknown token.
func TestUnknownChangesNoOtherText(t *testing.T) {
	residues, _, err := ParseFS(fstest.MapFS{
		"vocab.txt": {Data: []byte("<cls>\n<pad>\n<eos>\n<unk>\nA\nC\nD\n<mask>\n")},
	})
	require.NoError(t, err)
	words, err := Parse([]byte(strings.Replace(wordPieceFile, `"##s":8`, `"##s":8,"[UNK]":9`, 1)))
	require.NoError(t, err)
	pieces, err := Parse(unigramFile(`[["?",0],["a",-2],["ab",-3],["c",-2],["<0x78>",-9]]`,
		`,"byte_fallback":true`))
	require.NoError(t, err)
	alphabet := []string{"a", "b", "c", "x", "y", "A", "C", "D", "J", " ", "fill", "ing", "masks", ",",
		"😀", "中", "é", strings.Repeat("b", 9)}
	for _, tok := range []Tokenizer{residues, words, pieces} {
		whole, unknown := WithUnknown(tok)
		require.NotEqual(t, NoUnknown, unknown)
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 1, 12).Draw(t, "text"), "")
			ids, err := whole.Encode(text)
			require.NoError(t, err)
			plain, plainErr := tok.Encode(text)
			if plainErr == nil {
				require.Equal(t, plain, ids)
			} else if strings.Trim(text, "ACD ") != "" { // residues refuse white space, which is dropped
				require.Contains(t, ids, unknown)
			}
		})
	}
}

// The ids of EsmTokenizer (transformers 5.24): letters without a token are one unknown token up to
// the next letter or white space.
func TestUnknownResidues(t *testing.T) {
	tok, _, err := ParseFS(fstest.MapFS{
		"vocab.txt": {Data: []byte("<cls>\n<pad>\n<eos>\n<unk>\nA\nC\nD\n<mask>\n")},
	})
	require.NoError(t, err)
	_, err = tok.Encode("AJ")
	require.ErrorContains(t, err, `character 2 is 'J'`)
	whole, _ := WithUnknown(tok)
	for text, want := range map[string][]int32{
		"AJC":      {4, 3, 5},
		"jj AJJCD": {3, 4, 3, 5, 6},
		"A j j":    {4, 3, 3},
	} {
		ids, err := whole.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, text)
	}
}

// Lower case comes before a file's normalizer, and added tokens are found in what it makes, as
// do_lower_case of sentence-transformers 6.2 has it.
func TestLowercase(t *testing.T) {
	file := strings.Replace(wordPieceFile, `"lowercase":true`, `"lowercase":false`, 1)
	file = strings.Replace(file, `"added_tokens":[`, `"added_tokens":[
		{"id":9,"content":"Xylo","normalized":true},{"id":10,"content":"Zork","normalized":false},`, 1)
	tok, err := Parse([]byte(file))
	require.NoError(t, err)
	_, err = tok.Encode("Fill")
	require.Error(t, err)
	lower, err := WithLowercase(WithMask(tok, 0, "▯"))
	require.NoError(t, err)
	for text, want := range map[string][]int32{
		"FILL xylo XYLO": {1, 9, 9},
		"Xylo,Zork":      {9, 5, 10},
	} {
		ids, err := lower.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, text)
	}
	_, err = lower.Encode("zork")
	require.Error(t, err)
	require.True(t, IsSpecial(lower, 0))
}
