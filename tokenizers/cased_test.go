package tokenizers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tekkenPattern is that of Mistral's Tekken and of Nemotron's tokenizers.
const tekkenPattern = `[^\r\n\p{L}\p{N}]?[` + upperOrBoth + `]*[` + lowerOrBoth + `]+|` +
	`[^\r\n\p{L}\p{N}]?[` + upperOrBoth + `]+[` + lowerOrBoth + `]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// Words equal those of Hugging Face's tokenizers 0.23.3 for random texts with letters of all cases,
// marks, digits, signs and white space.
func TestTekkenWords(t *testing.T) {
	data, err := os.ReadFile("testdata/tekken.json")
	require.NoError(t, err)
	var cases []struct {
		Text  string
		Words []string
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	require.Len(t, cases, 400)
	find := compilePattern(tekkenPattern)
	for _, c := range cases {
		var got []string
		for text := c.Text; text != ""; {
			start, end := find(text)
			require.Zero(t, start)
			got, text = append(got, text[:end]), text[end:]
		}
		require.Equal(t, c.Words, got, "%q", c.Text)
	}
}

// Ids and texts of the tokenizers of Nemotron-Labs-Diffusion's and DreamOn's packs are those of
// Hugging Face's library.
func TestCausalPacks(t *testing.T) {
	for _, name := range []string{"tokenizer-nemotron-labs-tiny", "tokenizer-dreamon-tiny"} {
		dir := filepath.Join("..", "testdata", "packs", name)
		data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
		require.NoError(t, err)
		tok, err := Parse(data)
		require.NoError(t, err, name)
		data, err = os.ReadFile(filepath.Join(dir, "cases.json"))
		require.NoError(t, err)
		var all struct {
			Cases []struct {
				Text    string
				IDs     []int32
				Decoded string
			}
			Chats []struct {
				Text string
				IDs  []int32
			}
			Infills []struct {
				Prefix, Suffix string
				Masks          int
				IDs            []int32
			}
		}
		require.NoError(t, json.Unmarshal(data, &all))
		require.NotEmpty(t, all.Cases)
		require.NotEmpty(t, all.Chats)
		for _, c := range all.Cases {
			ids, err := tok.EncodeSpecial(c.Text)
			require.NoError(t, err)
			require.Equal(t, c.IDs, append([]int32{}, ids...), "%s: %q", name, c.Text)
			require.Equal(t, c.Decoded, tok.Decode(c.IDs), name)
		}
		for _, c := range all.Chats {
			ids, err := tok.EncodeSpecial(c.Text)
			require.NoError(t, err)
			require.Equal(t, c.IDs, ids, "%s: %q", name, c.Text)
		}
		for _, c := range all.Infills {
			begin, ok := tok.Special("<|beginoftext|>")
			require.True(t, ok)
			end, _ := tok.Special(EndOfText)
			mask, _ := tok.Special("<|mask|>")
			ids := []int32{begin}
			for _, text := range []string{c.Prefix, c.Suffix} {
				if text != "" {
					more, err := tok.Encode(text)
					require.NoError(t, err)
					ids = append(ids, more...)
				}
				for range c.Masks {
					if text == c.Prefix {
						ids = append(ids, mask)
					}
				}
			}
			require.Equal(t, c.IDs, append(ids, end), name)
		}
	}
}
