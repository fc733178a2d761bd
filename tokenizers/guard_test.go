package tokenizers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// guardedFile draws a tokenizer.json over a few letters. Its special tokens, and tokens that it
// does not call special, are in the vocabulary and may be reached by merges. It returns the ids of
// both kinds, and their spellings.
func guardedFile(t *rapid.T) (file map[string]any, specials, more []int32, picked []string) {
	letters := strings.Split("<|mask>", "")
	vocab, merges := map[string]int{}, []string{}
	for i, l := range letters {
		vocab[l] = i
	}
	for _, c := range []string{"<|", "ma", "sk", "<|ma", "sk|", "sk|>", "<|mask|>", "mas", "<|>",
		"|>"} {
		for cut := range len(c) - 1 {
			left, right := c[:cut+1], c[cut+1:]
			_, l := vocab[left]
			_, r := vocab[right]
			if _, there := vocab[c]; l && r && (!there || rapid.Bool().Draw(t, "again")) {
				if !there {
					vocab[c] = len(vocab)
				}
				merges = append(merges, left+" "+right)
			}
		}
		if _, there := vocab[c]; !there {
			vocab[c] = len(vocab)
		}
	}
	var names []string
	for text := range vocab {
		names = append(names, text)
	}
	slices.Sort(names)
	picked = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 5, rapid.ID).Draw(t, "picked")
	var list []any
	for i, text := range picked {
		special := i%2 == 0
		if special {
			specials = append(specials, int32(vocab[text]))
		} else {
			more = append(more, int32(vocab[text]))
		}
		if special || rapid.Bool().Draw(t, "listed") {
			list = append(list, map[string]any{"id": vocab[text], "content": text, "special": special,
				"lstrip": rapid.Bool().Draw(t, "lstrip"), "rstrip": rapid.Bool().Draw(t, "rstrip"),
				"single_word": rapid.Bool().Draw(t, "single"),
				"normalized":  rapid.Bool().Draw(t, "normalized")})
		}
	}
	model := map[string]any{"type": "BPE", "vocab": vocab, "merges": merges,
		"ignore_merges": rapid.Bool().Draw(t, "ignore")}
	file = map[string]any{"model": model, "added_tokens": list}
	if rapid.Bool().Draw(t, "bytes") {
		file["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": false,
			"trim_offsets": false, "use_regex": rapid.Bool().Draw(t, "regex")}
		file["decoder"] = map[string]any{"type": "ByteLevel"}
	}
	return file, specials, more, picked
}

// Special tokens, and those that a caller guards as a model's mask and ends, never come from plain
// text: neither from merges, nor from words that are tokens, nor from parts of a chat that are not
// special.
func TestSpecialTokensNeverComeFromText(t *testing.T) {
	typed := 0
	rapid.Check(t, func(t *rapid.T) {
		file, specials, more, spellings := guardedFile(t)
		data, err := json.Marshal(file)
		require.NoError(t, err)
		parsed, err := Parse(data)
		require.NoError(t, err)
		ids := slices.Concat(specials, more)
		for name, tok := range map[string]Tokenizer{"file": parsed, "guard": WithSpecial(parsed, more...),
			"mask": WithMask(WithSpecial(parsed, more...), ids[len(ids)-1], "▯"),
			"late": WithSpecial(WithMask(parsed, 1000, "▯"), more...)} {
			text := strings.Join(rapid.SliceOf(rapid.SampledFrom(slices.Concat(spellings,
				[]string{" ", "a", "<", "|", "mask", "<|mask|>"}))).Draw(t, "text"), "")
			barred := specials
			if name != "file" {
				barred = ids
			}
			for _, encode := range []func() ([]int32, error){
				func() ([]int32, error) { return tok.Encode(text) },
				func() ([]int32, error) { return EncodeParts(tok, []Part{{Text: text}}) },
				func() ([]int32, error) {
					return EncodeParts(tok, []Part{{Text: text[:len(text)/2]}, {Text: text[len(text)/2:]}})
				},
			} {
				got, err := encode()
				if err != nil {
					require.ErrorContains(t, err, "is not in the vocabulary")
					continue
				}
				typed++
				for _, id := range got {
					require.NotContains(t, barred, id, "%s: %q", name, text)
				}
			}
		}
	})
	require.Positive(t, typed)
}

// A word may be merged by way of a special token, as the library does it, but never ends in one.
func TestWordsBesideSpecialTokens(t *testing.T) {
	tok, err := Parse([]byte(`{"added_tokens":[{"id":3,"content":"12","special":true}],
		"model":{"type":"BPE","vocab":{"1":0,"2":1,"x":2,"12":3,"x12":4},
			"merges":["1 2","x 12"]}}`))
	require.NoError(t, err)
	long := strings.Repeat("x12", 20) // more symbols than are merged by trying all pairs
	for text, want := range map[string][]int32{
		"x12": {4}, "12": {0, 1}, "x1212": {2, 0, 1, 0, 1}, long: slices.Repeat([]int32{4}, 20),
		long + "12": slices.Concat(slices.Repeat([]int32{2, 0, 1}, 20), []int32{0, 1}),
	} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, text)
	}
}

// The folder of an older model, and the built-in vocabulary, are no exceptions.
func TestSpecialTokensOfOlderFiles(t *testing.T) {
	tok, _, err := ParseFS(fstest.MapFS{
		"vocab.json":            {Data: []byte(`{"<":0,"e":1,">":2,"<e":3,"<e>":4}`)},
		"merges.txt":            {Data: []byte("< e\n<e >\n")},
		"tokenizer_config.json": {Data: []byte(`{"eos_token":"<e>"}`)},
	})
	require.NoError(t, err)
	ids, err := tok.Encode("<e>")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2}, ids) // "<e" is no word of its own: GPT-2 splits there
	ids, err = tok.EncodeSpecial("<e>")
	require.NoError(t, err)
	require.Equal(t, []int32{4}, ids)
	for id := range int32(GPT2().VocabSize()) {
		text, _ := GPT2().Token(id)
		if ids, err := GPT2().Encode(text); err == nil {
			require.NotContains(t, ids, int32(gpt2Bytes+gpt2Merges), fmt.Sprintf("%q", text))
		}
	}
}
