package tokenizers

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wordPieceFile is a small file of the kind that BERT's fast tokenizers write.
const wordPieceFile = `{"added_tokens":[{"id":0,"content":"[MASK]","special":true,"single_word":false,
	"lstrip":false,"rstrip":false,"normalized":false}],
	"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,
		"strip_accents":null,"lowercase":true},
	"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":null,
	"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
	"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
		"max_input_chars_per_word":8,
		"vocab":{"[MASK]":0,"fill":1,"##ing":2,"##in":3,"masks":4,",":5,"中":6,"cafe":7,"##s":8}}}`

// Words are cut at white space, signs and Chinese characters, lose case and accents, and become the
// longest tokens from the left.
func TestWordPieceFile(t *testing.T) {
	tok, err := Parse([]byte(wordPieceFile))
	require.NoError(t, err)
	for text, want := range map[string][]int32{
		"Filling MASKS,masks": {1, 2 /* not ##in */, 4, 5, 4},
		"Café\tcafe\u0301s":   {7, 7, 8},
		"中cafe中":              {6, 7, 6},
		"fil\u200bling":       {1, 2}, // without the invisible space
	} {
		ids, err := tok.Encode(text)
		require.NoError(t, err, text)
		require.Equal(t, want, ids, text)
	}
	_, err = tok.Encode("fillingss") // 9 characters
	require.EqualError(t, err, `text: word "fillingss" is not in the vocabulary`)
	require.Equal(t, "filling masks, [MASK] cafes", tok.Decode([]int32{1, 2, 4, 5, 0, 7, 8}))
}

// unigramFile returns a file with a Unigram model, whose tokens have scores.
func unigramFile(vocab, more string) []byte {
	return fmt.Appendf(nil, `{"added_tokens":[],"normalizer":null,"pre_tokenizer":null,
		"post_processor":null,"decoder":null,"model":{"type":"Unigram","unk_id":0,"vocab":%s%s}}`,
		vocab, more)
}

// Of all ways to cut a word the one with the largest sum of scores is taken, not the longest
// tokens.
func TestUnigramFile(t *testing.T) {
	tok, err := Parse(unigramFile(
		`[["?",0],["a",-2],["ab",-3],["abc",-9],["c",-2],["b",-4],["bc",-2.5]]`, ""))
	require.NoError(t, err)
	for text, want := range map[string][]int32{
		"abc":  {1, 6},    // a+bc -4.5, ab+c -5, abc -9, a+b+c -8
		"abca": {1, 6, 1}, // the end changes nothing before
		"ab":   {2},
		"bab":  {5, 2},
	} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, text)
	}
	_, err = tok.Encode("abxc")
	require.EqualError(t, err, `text: 'x' is not in the vocabulary`)

	tok, err = Parse(unigramFile(`[["?",0],["a",-2],["<0xC3>",-5],["<0xA9>",-5]]`,
		`,"byte_fallback":true`))
	require.NoError(t, err)
	ids, err := tok.Encode("aéa")
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2, 3, 1}, ids)
}

func TestUnigramFilesThatAreRefused(t *testing.T) {
	var suffixes []string
	for i := range maxSuffixes + 1 {
		suffixes = append(suffixes, `["`+strings.Repeat("a", i+1)+`",-1]`)
	}
	for vocab, want := range map[string]string{
		`[["a",-1],["b"]]`:     `vocab[1]: ["b"], want a token and its score`,
		`[["a",-1],["b","c"]]`: `vocab[1]: ["b","c"], want a token and its score`,
		`[["a",-1],["a",-2]]`:  `vocab[1]: "a", as vocab[0] is already`,
		`[["a",-1],["",-2]]`:   "vocab[1]: token of 0 bytes, want 1 to 1024",
		`{"a":0}`:              "vocab: found object, want array",
		"[" + strings.Join(suffixes, ",") + "]": `model.vocab: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" ` +
			"ends in 257 tokens, want at most 256",
	} {
		_, err := Parse(unigramFile(vocab, ""))
		require.ErrorContains(t, err, want, vocab)
		require.NotContains(t, err.Error(), "\n")
	}
}

// precompiledMap returns the table that replaces "A" by a text: a trie of 256 units in which the
// root's children are at their letter xor 1, and the value of A is at 200.
func precompiledMap(text string) string {
	units := make([]uint32, 256)
	units[0] = 1 << 10                          // children at 1
	units['A'^1] = 'A' | 1<<8 | ('A'^1^200)<<10 // has a value, at unit 200
	units[200] = 1 << 31                        // the text at 0
	data := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		data = binary.LittleEndian.AppendUint32(data, u)
	}
	return base64.StdEncoding.EncodeToString(append(data, text+"\x00"...))
}

func TestPrecompiled(t *testing.T) {
	read := func(table string) (normalizer, error) {
		data, err := json.Marshal(table)
		require.NoError(t, err)
		return readNormalizer(object{"type": json.RawMessage(`"Precompiled"`),
			"precompiled_charsmap": data})
	}
	n, err := read(precompiledMap("bc"))
	require.NoError(t, err)
	require.Equal(t, "xbcybc.", n("xAyA."))
	require.Equal(t, "e\u0301bc", n("e\u0301A"))
	for table, want := range map[string]string{
		"?":            "precompiled_charsmap: illegal base64",
		"AAAA":         "precompiled_charsmap: trie of 0 bytes, want a multiple of 4 up to 3",
		"BQAAAAAA":     "precompiled_charsmap: trie of 5 bytes, want a multiple of 4 up to 2",
		"BAAAAAAAAAD/": "precompiled_charsmap: the texts are not UTF-8",
	} {
		_, err := read(table)
		require.ErrorContains(t, err, want)
	}
}

// A Precompiled that drops the first characters does not take the text's beginning with them, as
// other normalizers do; the tokens are those of the library, 0.23.3.
func TestFirstOfWhatIsDropped(t *testing.T) {
	precompiled := `{"type":"Precompiled","precompiled_charsmap":"` + precompiledMap("") + `"}`
	for normalizer, want := range map[string]map[string][]int32{
		precompiled: {"a": {0, 1}, "Aa": {0, 1}, "AAa": {0, 1}, " a": {0, 1}},
		`{"type":"Sequence","normalizers":[` + precompiled + `,{"type":"Strip"}]}`: {"a": {0, 1},
			"Aa": {0, 1}, " a": {1}},
		`{"type":"Replace","pattern":{"String":"A"},"content":""}`: {"a": {0, 1}, "Aa": {1}, " a": {0, 1}},
	} {
		tok, err := Parse([]byte(`{"added_tokens":[],"normalizer":` + normalizer + `,"pre_tokenizer":
			{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},
			"model":{"type":"BPE","vocab":{"▁":0,"a":1},"merges":[]}}`))
		require.NoError(t, err)
		for text, ids := range want {
			got, err := tok.Encode(text)
			require.NoError(t, err)
			require.Equal(t, ids, got, "%s %q", normalizer, text)
		}
	}
}
