package tokenizers

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// parseFile reads a tokenizer of testdata.
func parseFile(t testing.TB, name string) Tokenizer {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	tok, err := Parse(data)
	require.NoError(t, err)
	return tok
}

// Ids and texts equal those of Hugging Face's tokenizers 0.23.3, recorded by testdata/make.py; ids
// are checked with special tokens as text and as ids.
func TestHuggingFace(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	var all map[string]struct {
		Size   int
		Encode []struct {
			Text         string
			IDs, Special []int32
		}
		Decode []struct {
			IDs  []int32
			Text string
		}
	}
	require.NoError(t, json.Unmarshal(data, &all))
	for name, tok := range map[string]Tokenizer{
		"gpt2": GPT2(), "bytes": parseFile(t, "bytes.json"), "demo": parseFile(t, "demo.json"),
	} {
		t.Run(name, func(t *testing.T) {
			want := all[name]
			require.Equal(t, want.Size, tok.VocabSize())
			require.NotEmpty(t, want.Encode)
			require.NotEmpty(t, want.Decode)
			for _, c := range want.Encode {
				check(t, tok, tok.Encode, c.Text, c.IDs)
				check(t, tok, tok.EncodeSpecial, c.Text, c.Special)
			}
			for _, c := range want.Decode {
				require.Equal(t, c.Text, tok.Decode(c.IDs), "%v", c.IDs)
			}
		})
	}
}

// check checks ids and the decoded text, or expects an error if the library lost text (no ids).
func check(t *testing.T, tok Tokenizer, encode func(string) ([]int32, error), text string,
	want []int32) {
	t.Helper()
	ids, err := encode(text)
	if want == nil {
		require.ErrorContains(t, err, "not in the vocabulary", "%q", text)
		return
	}
	require.NoError(t, err, "%q", text)
	require.Equal(t, want, append([]int32{}, ids...), "%q", text)
	require.Equal(t, text, tok.Decode(ids))
}
