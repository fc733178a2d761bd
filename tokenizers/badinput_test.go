package tokenizers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// file returns a small valid tokenizer.json with its parts replaced; an empty part keeps the
// default.
func file(vocab, merges, added string) string {
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	return fmt.Sprintf(`{"normalizer":null,
		"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},
		"decoder":{"type":"ByteLevel"},
		"added_tokens":%s,
		"model":{"type":"BPE","vocab":%s,"merges":%s}}`,
		or(added, `[{"id":4,"content":"[MASK]","special":true}]`),
		or(vocab, `{"a":0,"b":1,"c":2,"ab":3}`),
		or(merges, `["a b"]`))
}

// refused checks that Parse returns a one-line error that contains every part.
func refused(t *testing.T, data string, parts ...string) {
	t.Helper()
	tok, err := Parse([]byte(data))
	require.Error(t, err)
	require.Nil(t, tok)
	require.NotContains(t, err.Error(), "\n")
	require.Less(t, len(err.Error()), 300)
	for _, p := range append(parts, "tokenizer.json: ") {
		require.ErrorContains(t, err, p)
	}
}

func TestSmallFile(t *testing.T) {
	tok, err := Parse([]byte(file("", "", "")))
	require.NoError(t, err)
	require.Equal(t, 5, tok.VocabSize())
	ids, err := tok.Encode("abcab")
	require.NoError(t, err)
	require.Equal(t, []int32{3, 2, 3}, ids)

	tok, err = Parse([]byte(file("", `[["a","b"]]`, "[]")))
	require.NoError(t, err)
	require.Equal(t, 4, tok.VocabSize())
	ids, err = tok.Encode("ab")
	require.NoError(t, err)
	require.Equal(t, []int32{3}, ids)
}

func TestMergeLongerThanAnyToken(t *testing.T) {
	refused(t, file("", `["a b","ab c"]`, ""), "model.merges[1]", `"abc" has 3 bytes`,
		"longest token of model.vocab has 2")
	refused(t, file("", `["`+strings.Repeat("a", 1e6)+` b"]`, ""), "model.merges[0]",
		"has 1000000 bytes")
}

func TestMergeOutsideTheVocabulary(t *testing.T) {
	refused(t, file("", `["x b"]`, ""), "model.merges[0]", `"x" is not in model.vocab`)
	refused(t, file("", `["a x"]`, ""), `"x" is not in model.vocab`)
	refused(t, file("", `["b a"]`, ""), `"ba" is not in model.vocab`)
	refused(t, file("", `["a b","a b"]`, ""), "model.merges[1]", "same as model.merges[0]")
	for _, bad := range []string{`["a"]`, `["a b c"]`, `[" a"]`, `[["a"]]`, `[["a","b","c"]]`,
		`[["a",null]]`, `[1]`, `[null]`} {
		refused(t, file("", bad, ""), "model.merges[0]", "want two tokens")
	}
	for _, bad := range []string{`{}`, `"a b"`, `null`, `7`} {
		refused(t, file("", bad, ""), "model.merges: want an array")
	}
}

func TestDuplicateNegativeAndGappedIds(t *testing.T) {
	refused(t, file(`{"a":0,"b":1,"c":1,"ab":3}`, "", ""), `id 1 is given to both "b" and "c"`)
	refused(t, file(`{"a":0,"b":1,"c":-2,"ab":3}`, "", ""), `id -2 of "c"`,
		"5 tokens want ids 0 to 4")
	refused(t, file(`{"a":0,"b":1,"c":2,"ab":4}`, "", "[]"), `id 4 of "ab"`, "ids 0 to 3")
	refused(t, file(`{"a":0,"b":1,"c":2,"ab":9223372036854775807}`, "", ""), "9223372036854775807")
	refused(t, file(`{"a":0,"b":1,"c":2,"ab":9223372036854775808}`, "", ""), "model.vocab",
		"want integer")
	refused(t, file(`{"a":0,"b":1,"c":2.0,"ab":3}`, "", ""), "model.vocab",
		"found number 2.0, want integer")
	refused(t, file(`{"a":0,"b":1,"c":null,"ab":3}`, "", ""), `"c"`)
	refused(t, file(`{"a":0,"b":1,"c":"2","ab":3}`, "", ""), "found string, want integer")
	refused(t, file(`{"a":0,"b":1,"b":2,"ab":3}`, "", ""), `"b" is there twice`)
	refused(t, file(`{"a":0,"b":1,"":2,"ab":3}`, "", ""), "empty token")
	refused(t, file(`{}`, "[]", "[]"), "model.vocab: no tokens")
	refused(t, file(`[["a",0]]`, "[]", "[]"), "model.vocab: found array, want object")
}

func TestSpecialIdBeyondTheVocabulary(t *testing.T) {
	one := func(fields string) string { return `[{"content":"[MASK]",` + fields + `}]` }
	refused(t, file("", "", one(`"id":9`)), "added_tokens[0]", "id 9", "5 tokens want ids 0 to 4")
	refused(t, file("", "", one(`"id":-1`)), "id -1")
	refused(t, file("", "", one(`"id":3`)), `id 3 is given to both "[MASK]" and "ab"`)
	refused(t, file("", "", one(`"id":null`)), "no id")
	refused(t, file("", "", one(`"id":"4"`)), "added_tokens", "found string, want integer")
	refused(t, strings.Replace(file("", "", one(`"id":4,"normalized":true`)), `"normalizer":null`,
		`"normalizer":{"type":"Replace","pattern":{"String":"[MASK]"},"content":""}`, 1),
		"nothing is left of it")
	refused(t, file("", "", `[{"id":1,"content":"a"}]`), `"a": id 1, but 0 in model.vocab`)
	refused(t, file("", "", `[{"id":4,"content":""}]`), "content of 0 bytes")
	refused(t, file("", "", `[{"id":4,"content":"`+strings.Repeat("x", 257)+`"}]`),
		"content of 257 bytes")
	refused(t, file("", "", `[{"id":4,"content":"x"},{"id":5,"content":"x"}]`), "added_tokens[1]",
		"appears twice")
	refused(t, file("", "", `{}`), "added_tokens: found object, want array")

	tok, err := Parse([]byte(file("", "", `[{"id":4,"content":"`+strings.Repeat("x", 256)+`"}]`)))
	require.NoError(t, err)
	require.Equal(t, 5, tok.VocabSize())
}

func TestTruncatedJSONAndByteOrderMark(t *testing.T) {
	whole := file("", "", "")
	for n := range len(whole) {
		_, err := Parse([]byte(whole[:n]))
		require.ErrorContains(t, err, "unexpected end", "cut at %d", n)
	}
	refused(t, "\ufeff"+whole, "byte order mark")
	refused(t, whole+"{}", `found "{" after the end`)
	refused(t, "[]", "found array, want object")
	refused(t, "{}", "model.vocab: no tokens")
	refused(t, strings.Replace(whole, "[MASK]", "[MA\xffK]", 1), "is 0xff, want UTF-8")
	refused(t, "\xff\xfe{\x00", "byte 0 is 0xff")
	refused(t, strings.Repeat("[", 1_000_000), "JSON is 65 deep, want at most 64")
}

func TestUnsupportedSettings(t *testing.T) {
	whole := file("", "", "")
	for _, c := range []struct{ old, new, part string }{
		{`"normalizer":null`, `"normalizer":{"type":"Nmt"}`,
			`normalizer.type is "Nmt"`},
		{`"normalizer":null`, `"normalizer":{"type":"NFC","form":2}`,
			`normalizer.field "form" is not known`},
		{`"normalizer":null`, `"normalizer":{}`, "normalizer.type is missing"},
		{`"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[null]}`,
			"normalizer.normalizers[0].is null"},
		{`"normalizer":null`, `"normalizer":{"type":"Prepend","prepend":"` +
			strings.Repeat("x", 257) + `"}`, "prepend is 257 bytes"},
		{`"normalizer":null`,
			`"normalizer":{"type":"Replace","pattern":{"Regex":"a(?=b)"},"content":""}`,
			`pattern.Regex is "a(?=b)"`},
		{`"add_prefix_space":false,`, ``, "add_prefix_space is missing"},
		{`"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"UnicodeScripts"`,
			`"UnicodeScripts"`},
		{`"pre_tokenizer":`,
			`"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":true},` +
				`{"type":"WhitespaceSplit"}]},"x":`, "pretokenizers[1].type is " +
				"\"WhitespaceSplit\" after ByteLevel"},
		{`"pre_tokenizer":`,
			`"pre_tokenizer":{"type":"Split","pattern":{"String":" ` +
				`"},"behavior":"Lost"},"x":`, `behavior is "Lost"`},
		{`"decoder":{"type":"ByteLevel"}`, `"decoder":{"type":"CTC"}`,
			`decoder.type is "CTC"`},
		{`"decoder":{"type":"ByteLevel"}`,
			`"decoder":{"type":"Strip","content":" ","start":0,"stop":1}`, "decoder.stop is 1, " +
				"want 0"},
		{`"normalizer":null`, `"post_processor":{"type":"Other"}`,
			`post_processor.type is "Other"`},
		{`"normalizer":null`, `"post_processor":{"type":"TemplateProcessing","single":[]}`,
			"single has the text 0 times"},
		{`"normalizer":null`,
			`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}}]}`,
			`"a" is not in special_tokens`},
		{`"type":"BPE"`, `"type":"WordLevel"`, `model.type: "WordLevel"`},
		{`"type":"BPE"`, `"type":7`, "model.type: found number, want string"},
		{`"type":"BPE"`, `"end_of_word_suffix":"</w>"`, "end_of_word_suffix"},
		{`"type":"BPE"`, `"continuing_subword_prefix":"##"`, "continuing_subword_prefix"},
		{`"type":"BPE"`, `"unk_token":"?"`, `unk_token: "?" is not in model.vocab`},
		{`"type":"BPE"`, `"dropout":0.1`, "dropout"},
	} {
		require.Contains(t, whole, c.old)
		refused(t, strings.Replace(whole, c.old, c.new, 1), c.part)
	}
}

// Each limit is reached without an error, and exceeding it by one is an error.
func TestLimits(t *testing.T) {
	padded := append([]byte("\ufeff"), make([]byte, MaxFile-2)...)
	_, err := Parse(padded[:MaxFile]) // read, and refused for its start
	require.ErrorContains(t, err, "byte order mark")
	_, err = Parse(padded)
	require.EqualError(t, err, "tokenizer.json: 100000001 bytes, want at most 100000000")

	nested := func(depth int) string { // inside the file's own object
		value := strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1)
		return strings.Replace(file("", "", ""), `"normalizer":null`, `"other":`+value, 1)
	}
	_, err = Parse([]byte(nested(MaxDepth)))
	require.NoError(t, err)
	refused(t, nested(MaxDepth+1), "JSON is 65 deep, want at most 64")

	items := func(n int) string {
		return strings.Replace(file("", "", ""), `"normalizer":null`,
			`"other":[`+strings.Repeat("0,", n-1)+`0]`, 1)
	}
	_, err = Parse([]byte(items(MaxItems)))
	require.NoError(t, err)
	refused(t, items(MaxItems+1), "more than 600000 entries")

	extra := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"id":%d,"content":"<%d>"}`, 4+i, i))
		}
		return file("", "", "["+strings.Join(list, ",")+"]")
	}
	tok, err := Parse([]byte(extra(MaxAdded)))
	require.NoError(t, err)
	ids, err := tok.Encode("a<4095><7>")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 4099, 11}, ids)
	refused(t, extra(MaxAdded+1), "added_tokens: 4097 entries, want at most 4096")

	_, err = GPT2().Encode(strings.Repeat("a", MaxText+1))
	require.EqualError(t, err, "text is 33554433 bytes, want at most 33554432")
}

func TestInvalidUTF8AndHugePrompts(t *testing.T) {
	for _, tok := range []Tokenizer{GPT2(), parseFile(t, "bytes.json"),
		WithMask(GPT2(), 50257, "▯")} {
		for _, encode := range []func(string) ([]int32, error){tok.Encode, tok.EncodeSpecial} {
			ids, err := encode("ab\xffc")
			require.EqualError(t, err, "text: byte 2 is 0xff, want UTF-8")
			require.Nil(t, ids)
			_, err = encode("\xed\xa0\x80") // a surrogate
			require.ErrorContains(t, err, "byte 0 is 0xed")
			_, err = encode("▯ \xe2\x96")
			require.ErrorContains(t, err, "byte 4 is 0xe2")
		}
	}
	// One word of 2 MB is the worst case for merging; prose of the same size is the usual one. Work
	// that grows with the square of the size would not end before the tests' time is over.
	tok := parseFile(t, "demo.json")
	for _, text := range []string{strings.Repeat("the", 2<<20/3),
		strings.Repeat("To be, or not: 'tis\n", 2<<20/20)} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.True(t, tok.Decode(ids) == text)
	}
}

func TestLeftoverMasks(t *testing.T) {
	demo := parseFile(t, "demo.json")
	require.Equal(t, "[MASK]", demo.Decode([]int32{1024}))
	tok := WithMask(demo, 1024, "▯")
	require.Equal(t, 1025, tok.VocabSize())
	ids, err := tok.EncodeSpecial("To be ▯▯ not[MASK]")
	require.NoError(t, err)
	holes := 0
	for _, id := range ids {
		if id == 1024 {
			holes++
		}
	}
	require.Equal(t, 3, holes)
	require.Equal(t, "To be ▯▯ not▯", tok.Decode(ids))
	_, err = tok.Encode("To be ▯")
	require.ErrorContains(t, err, `'▯' is not in the vocabulary`)

	// GPT-2 knows no mask; the networks over it have one at 50257.
	gpt2 := WithMask(GPT2(), 50257, "▯")
	require.Equal(t, 50258, gpt2.VocabSize())
	ids, err = gpt2.Encode("é")
	require.NoError(t, err)
	require.Equal(t, "▯ é▯", gpt2.Decode(append([]int32{50257, 220}, append(ids, 50257)...)))
	require.Equal(t, []string{"▯", "a"}, gpt2.Pieces([]int32{50257, 64}))
	id, ok := gpt2.Special("▯")
	require.True(t, ok)
	require.EqualValues(t, 50257, id)
	id, ok = gpt2.Special(EndOfText)
	require.True(t, ok)
	require.EqualValues(t, 50256, id)

	// A hole inside a rune leaves no broken byte; without a mask its id is unknown.
	face, err := GPT2().Encode("😀")
	require.NoError(t, err)
	require.Len(t, face, 2)
	require.Equal(t, []string{"😀", ""}, gpt2.Pieces(face))
	require.Equal(t, "\ufffd▯\ufffd", gpt2.Decode([]int32{face[0], 50257, face[1]}))
	require.Equal(t, "\ufffd\ufffd", GPT2().Decode([]int32{50257, -1}))
	require.Equal(t, "a", WithMask(GPT2(), 50257, "").Decode([]int32{50257, 64}))
}
