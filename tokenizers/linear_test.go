package tokenizers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// A text of 300 kB takes every kind of tokenizer some seconds at most, whatever is in it.
func TestTokenizersAreLinear(t *testing.T) {
	const smiles = "[PAD]\n[MASK]\nC\nO\n[NH4+]\n(\n)\n"
	const huge = `{"model":{"type":"WordPiece","unk_token":"[UNK]","max_input_chars_per_word":1000000,` +
		`"continuing_subword_prefix":"##","vocab":{"[UNK]":0,"a":1,"##a":2}}}`
	var suffixes []string
	for i := range maxSuffixes {
		suffixes = append(suffixes, `["`+strings.Repeat("a", i+1)+`",-1]`)
	}
	var added []string
	for i := range 255 {
		added = append(added, fmt.Sprintf(`{"id":%d,"content":%q}`, i+2, strings.Repeat("a", i+1)+"b"))
	}
	for name, c := range map[string]struct{ file, text, text2, data string }{
		"SMILES: brackets without an end": {"vocab.txt", "[", "", smiles},
		"SMILES: one end":                 {"vocab.txt", "[", "]", smiles},
		"SMILES: atoms":                   {"vocab.txt", "C", "", smiles},
		"WordPiece: one word":             {"tokenizer.json", "a", "", huge},
		"Unigram: tokens in which tokens end": {"tokenizer.json", "a", "",
			string(unigramFile("["+strings.Join(suffixes, ",")+"]", ""))},
		"Unigram: the beginning of a token": {"tokenizer.json", "a", "",
			string(unigramFile(`[["a",-1],["`+strings.Repeat("a", 1000)+`b",-1]]`, ""))},
		"added tokens: their beginnings": {"tokenizer.json", "a", "",
			`{"model":{"vocab":{"a":0,"b":1},"merges":[]},"added_tokens":[` +
				strings.Join(added, ",") + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			var tok Tokenizer
			var err error
			if c.file == "vocab.txt" {
				tok, _, err = ParseFS(fstest.MapFS{c.file: {Data: []byte(c.data)}})
			} else {
				tok, err = Parse([]byte(c.data))
			}
			require.NoError(t, err)
			began := time.Now()
			_, _ = tok.Encode(strings.Repeat(c.text, 300_000) + c.text2) // an error is an answer too
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
}

// Files with long lists of tokens are read, or refused, in time in proportion to their length.
func TestListsOfTokensAreLinear(t *testing.T) {
	const n = 50_000
	list := func(format string) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "N", strconv.Itoa(i+2)))
		}
		return strings.Join(all, ",")
	}
	for name, c := range map[string]struct{ config, added, want string }{
		"special tokens and added ones": {`"additional_special_tokens":[` + list(`"sN"`) + `]`,
			`{` + list(`"dN":N`) + `}`, "added_tokens: 50000 entries, want at most 4096"},
		"special tokens and a decoder": {`"additional_special_tokens":[` + list(`"sN"`) +
			`],"added_tokens_decoder":{` + list(`"N":{"content":"dN"}`) + `}`, `{}`,
			"added_tokens: 50000 entries, want at most 4096"},
		"an id of 1e12": {`"x":0`, `{"d":1000000000000}`, "id 1000000000000 of \"d\" is outside"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			config := `{"tokenizer_class":"GPT2Tokenizer",` + c.config + `}`
			_, _, err := ParseFS(fstest.MapFS{"vocab.json": {Data: []byte(`{"a":0,"b":1}`)},
				"merges.txt": {Data: []byte("#version: 1\n")}, "added_tokens.json": {Data: []byte(c.added)},
				"tokenizer_config.json": {Data: []byte(config)}})
			require.ErrorContains(t, err, c.want)
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
}

// A table that makes a text of a megabyte of each letter makes no text of a terabyte.
func TestPrecompiledTextsAreBounded(t *testing.T) {
	table := precompiled{units: make([]uint32, 256), texts: []byte(strings.Repeat("b", 1<<20))}
	table.units[0] = 1 << 10
	table.units['A'^1] = 'A' | 1<<8 | ('A'^1^200)<<10
	table.units[200] = 1 << 31
	for name, text := range map[string]string{"clusters": strings.Repeat("A", 1<<20),
		"one cluster": "A" + strings.Repeat("\u0301", 1<<19)} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, len(table.normalize(text)), 4*MaxText)
		})
	}
}

// Nor do stages that make each letter 256 of them, one after another, of a text or of tokens.
func TestReplacedTextsAreBounded(t *testing.T) {
	stage := `{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("a", 256) + `"}`
	stages := json.RawMessage("[" + stage + strings.Repeat(","+stage, 9) + "]")
	kind := json.RawMessage(`"Sequence"`)
	n, err := readNormalizer(object{"type": kind, "normalizers": stages})
	require.NoError(t, err)
	require.Less(t, len(n("a")), 4*MaxText)
	d, err := readDecoder(object{"type": kind, "decoders": stages})
	require.NoError(t, err)
	size := 0
	for _, token := range d(slices.Repeat([]decoderToken{{{text: "a"}}}, 100)) {
		size += len(token.text())
	}
	require.Less(t, size, 8*MaxText)
}
