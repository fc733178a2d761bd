package tokenizers

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Ids and texts equal those of Hugging Face's tokenizers 0.23.3 for files of many kinds, written by
// tools/peers/tokens.py --files 22 --texts 10 --seed 23 --write. Only files with unsupported
// stages, and texts that the library would truncate, are refused. Text of which the library's model
// makes special tokens has other ids.
func TestKinds(t *testing.T) {
	data, err := os.ReadFile("testdata/kinds.json")
	require.NoError(t, err)
	var files []struct {
		File  json.RawMessage
		Cases []struct {
			Text    string
			IDs     [3][]int32
			Decoded [2]string
		}
	}
	require.NoError(t, json.Unmarshal(data, &files))
	read, equal, dropped, merged := 0, 0, 0, 0
	for n, f := range files {
		tok, err := Parse(f.File)
		if err != nil {
			require.Regexp(t, `type is "(Nmt|UnicodeScripts)"|Regex is`, err.Error())
			continue
		}
		read++
		for _, c := range f.Cases {
			special, err := tok.EncodeSpecial(c.Text)
			if err == nil {
				_, err = tok.Encode(c.Text)
			}
			if err != nil {
				require.ErrorContains(t, err, "is not in the vocabulary", "file %d: %q", n, c.Text)
				dropped++
				continue
			}
			plain, _ := tok.Encode(c.Text)
			before, after := SurroundingTokens(tok)
			got := [3][]int32{append([]int32{}, special...), append([]int32{}, plain...),
				append(append(append([]int32{}, before...), special...), after...)}
			marked := slices.ContainsFunc(slices.Concat(c.IDs[0], c.IDs[1]),
				func(id int32) bool { return IsSpecial(tok, id) })
			if marked && !reflect.DeepEqual(c.IDs, got) {
				merged++
				continue
			}
			require.Equal(t, c.IDs, got, "file %d: %q", n, c.Text)
			require.Equal(t, c.Decoded, [2]string{tok.Decode(special), tok.Decode(plain)},
				"file %d: %q", n, c.Text)
			require.Equal(t, c.Decoded[0], strings.Join(tok.Pieces(special), ""))
			masked := WithMask(tok, 1<<20, "▯")
			require.Equal(t, c.Decoded[0], masked.Decode(special))
			equal++
		}
	}
	require.GreaterOrEqual(t, read, 20)
	require.Greater(t, equal, 120)
	require.Less(t, dropped, 60)
	require.Less(t, merged, 20)
}

// Small vocabularies with the patterns, normalizers and added tokens of LLaDA (Ling) and Dream
// (Qwen) give the library's ids.
func TestPublishedPatterns(t *testing.T) {
	for _, name := range []string{"llada", "dream"} {
		tok := parseFile(t, name+".json")
		data, err := os.ReadFile("testdata/" + name + "-cases.json")
		require.NoError(t, err)
		var all struct {
			Cases []struct {
				Text, Decoded string
				IDs           []int32
			}
			Chats []struct {
				Text string
				IDs  []int32
			}
		}
		require.NoError(t, json.Unmarshal(data, &all))
		require.NotEmpty(t, all.Cases)
		require.NotEmpty(t, all.Chats)
		for _, c := range all.Cases {
			ids, err := tok.EncodeSpecial(c.Text)
			require.NoError(t, err)
			require.Equal(t, c.IDs, append([]int32{}, ids...), "%q", c.Text)
			require.Equal(t, c.Decoded, tok.Decode(ids))
		}
		for _, c := range all.Chats {
			ids, err := tok.EncodeSpecial(c.Text)
			require.NoError(t, err)
			require.Equal(t, c.IDs, ids, "%q", c.Text)
		}
	}
}

// \w is of Oniguruma in expressions, with other characters outside of brackets, and of Rust's regex
// in Whitespace. The words are those of the library, 0.23.3.
func TestWordCharacters(t *testing.T) {
	const text = "a\u00b2!\u00bd a\u200db\u200c\U0001f468\u200d\U0001f469"
	split := func(regex string) string {
		return `{"type":"Split","pattern":{"Regex":"` + regex + `"},"behavior":"Removed","invert":true}`
	}
	for stage, want := range map[string][]string{
		split(`\\w+|[^\\w\\s]+`): {"a\u00b2", "!\u00bd", "a", "\u200d", "b",
			"\u200c\U0001f468\u200d\U0001f469"},
		split(`[\\w]+|[^\\w\\s]+`): {"a", "\u00b2!\u00bd", "a", "\u200d", "b",
			"\u200c\U0001f468\u200d\U0001f469"},
		`{"type":"Whitespace"}`: {"a", "\u00b2!\u00bd", "a\u200db\u200c", "\U0001f468", "\u200d",
			"\U0001f469"},
	} {
		var s object
		require.NoError(t, json.Unmarshal([]byte(stage), &s))
		var p preTokenizer
		require.NoError(t, p.readStage(s))
		var got []string
		require.NoError(t, p.eachWord(piece{text, true}, func(one piece) error {
			got = append(got, one.text)
			return nil
		}))
		require.Equal(t, want, got, stage)
	}
}

// The normal forms equal those of Hugging Face's normalisers, apart from known errors there and
// here.
func TestNormalForms(t *testing.T) {
	read := func(kind string) normalizer {
		n, err := readNormalizer(object{"type": json.RawMessage(`"` + kind + `"`)})
		require.NoError(t, err)
		return n
	}
	for _, c := range []struct{ kind, text, want string }{
		{"NFC", "e\u0301", "é"},
		{"NFC", "\U00020041\u0301", "\U00020041\u0301"}, // not Á
		{"NFC", "\U00011099\U000110ba", "\U0001109a"},
		{"NFC", "\U00011935\U00011930",
			"\U00011935\U00011930"}, // younger than the library's tables
		{"NFD", "\U00011938", "\U00011938"},
		{"NFC", "q\u0307\u0323", "q\u0323\u0307"},
		{"NFC", "\U00020041q\u0307\u0323é", "\U00020041q\u0323\u0307é"},
		{"NFC", "\u1112\u1161\u11ab\U00020041", "\ud55c\U00020041"},
		{"NFC", "\u0958", "\u0915\u093c"}, // excluded from composition
		{"NFC", "o" + strings.Repeat("\u0301\u0323", 20),
			"\u1ecd" + strings.Repeat("\u0323", 19) + strings.Repeat("\u0301", 20)},
		{"NFD", "\u1e9b\u0323", "\u017f\u0323\u0307"},
		{"NFKC", "\ufb01\uff21", "fiA"},
		{"NFKC", "\u32ff", "\u32ff"},
		{"NFC", "e\u1abf\u0323", "e\u1abf\u0323"},
		{"Lowercase", "AÀ\u0130\u1c89Σ", "aài̇\u1c8aσ"},
		{"Strip", "\u00a0 a b \u3000", "a b"},
	} {
		require.Equal(t, c.want, read(c.kind)(c.text), "%s of %+q", c.kind, c.text)
	}
}

// The characters around an added token decide whether it is found.
func TestAddedTokens(t *testing.T) {
	read := func(fields string) Tokenizer {
		tok, err := Parse([]byte(file(`{"a":0,"b":1,"c":2,"ab":3,"Ġ":4}`, "",
			`[{"id":5,"content":"<x>",`+fields+`}]`)))
		require.NoError(t, err)
		return tok
	}
	for _, c := range []struct {
		fields, text string
		want         []int32
	}{
		{`"lstrip":true`, "a  <x> b", []int32{0, 5, 4, 1}},
		{`"rstrip":true`, "a  <x> b", []int32{0, 4, 4, 5, 1}},
		{`"single_word":true`, "a <x> b", []int32{0, 4, 5, 4, 1}},
		{`"special":false`, "a<x>", []int32{0, 5}},
	} {
		ids, err := read(c.fields).Encode(c.text)
		require.NoError(t, err)
		require.Equal(t, c.want, ids, c.fields)
	}
	_, err := read(`"single_word":true`).Encode("a<x>b")
	require.ErrorContains(t, err, `'<' is not in the vocabulary`)

	// Ids follow the order of the list, as in the library.
	tok, err := Parse([]byte(file("", "", `[{"id":5,"content":"A"},{"id":4,"content":"B"}]`)))
	require.NoError(t, err)
	ids, err := tok.Encode("aAbB")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 4, 1, 5}, ids)

	// A token spelled in letters of the byte alphabet is shown as bytes.
	tok, err = Parse([]byte(file("", "", `[{"id":4,"content":"Ġé"}]`)))
	require.NoError(t, err)
	require.Equal(t, " \ufffd", tok.Decode([]int32{4}))
}

// vocab.json, merges.txt and tokenizer_config.json give the same ids as tokenizer.json.
func TestOlderFiles(t *testing.T) {
	data, err := os.ReadFile("testdata/dream.json")
	require.NoError(t, err)
	var whole struct {
		Model struct {
			Vocab  map[string]int64
			Merges json.RawMessage
		}
		Tokens []map[string]any `json:"added_tokens"`
	}
	require.NoError(t, json.Unmarshal(data, &whole))
	pairs, err := splitMerges(whole.Model.Merges)
	require.NoError(t, err)
	merges := "#version: 0.2\n"
	for _, p := range pairs {
		merges += p[0] + " " + p[1] + "\n"
	}
	byID := map[string]any{}
	for _, a := range whole.Tokens {
		byID[string(mustMarshal(a["id"])[:3])] = a
	}
	files := fstest.MapFS{
		"vocab.json": {Data: mustMarshal(whole.Model.Vocab)},
		"merges.txt": {Data: []byte(merges)},
		"tokenizer_config.json": {Data: mustMarshal(map[string]any{
			"tokenizer_class": "DreamTokenizer", "added_tokens_decoder": byID,
			"eos_token": "<|endoftext|>"})},
	}
	older, name, err := ParseFS(files)
	require.NoError(t, err)
	require.Equal(t, "vocab.json", name)
	tok := parseFile(t, "dream.json")
	require.Equal(t, tok.VocabSize(), older.VocabSize())
	for _, text := range []string{"It's é, 123\n\n x<|im_end|>",
		"<|im_start|>user\nWhat?<|im_end|>\n", " e\u0301"} {
		want, err := tok.EncodeSpecial(text)
		require.NoError(t, err)
		got, err := older.EncodeSpecial(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	files["tokenizer.json"] = &fstest.MapFile{Data: data}
	_, name, err = ParseFS(files)
	require.NoError(t, err)
	require.Equal(t, "tokenizer.json", name)
	delete(files, "tokenizer.json")
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"
	for _, c := range []struct{ name, data, want string }{
		{"merges.txt", "#version\na b c\n", `merges.txt: line 2 is "a b c\n", want two tokens`},
		{"tokenizer_config.json", `{"tokenizer_class":"BertTokenizer"}`,
			`tokenizer_class is "BertTokenizer"`},
		{"tokenizer_config.json", `{"added_tokens_decoder":{"x":{"content":"y"}}}`,
			`id is "x", want a number`},
		{"tokenizer_config.json", `{"eos_token":7}`, "eos_token: found number"},
		{"added_tokens.json", `{"x":"y"}`, "added_tokens.json: x: found string"},
		{"vocab.json", `{"a":`, "vocab.json: byte"},
		{"merges.txt", "\xff", "merges.txt: byte 0 is 0xff"},
		{"merges.txt", pointer, "merges.txt: a Git LFS pointer to a file of 7 bytes"},
		{"vocab.json", pointer, "vocab.json: a Git LFS pointer to a file of 7 bytes"},
		{"vocab.txt", pointer, "vocab.txt: a Git LFS pointer to a file of 7 bytes"},
		{"tokenizer.json", "<!DOCTYPE html>", "tokenizer.json: a web page"},
	} {
		kept := files[c.name]
		files[c.name] = &fstest.MapFile{Data: []byte(c.data)}
		_, _, err := ParseFS(files)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
		if files[c.name] = kept; kept == nil {
			delete(files, c.name)
		}
	}
	_, _, err = ParseFS(fstest.MapFS{"vocab.json": files["vocab.json"]})
	require.ErrorContains(t, err, "there is no merges.txt beside it")
	require.NotErrorIs(t, err, os.ErrNotExist)
	_, _, err = ParseFS(fstest.MapFS{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// SDAR's older files give one id to two texts; transformers reads added_tokens_decoder alone. Its
// mask is not called special there, but mask_token is special all the same.
func TestAddedTokensDecoderWins(t *testing.T) {
	files := fstest.MapFS{
		"vocab.json": {Data: []byte(`{"a": 0, "b": 1, "<": 2, "|": 3, "M": 4, ">": 5, "ab": 6}`)},
		"merges.txt": {Data: []byte("#version: 0.2\na b\n")},
		"tokenizer_config.json": {Data: []byte(`{"tokenizer_class": "Qwen2Tokenizer",
			"mask_token": "<|M|>", "added_tokens_decoder": {"7": {"content": "<|M|>", "special": false}}}`)},
		"added_tokens.json": {Data: []byte(`{"<M>": 7}`)},
	}
	v, _, err := ParseFS(files)
	require.NoError(t, err)
	ids, err := v.EncodeSpecial("b<|M|>a")
	require.NoError(t, err)
	require.Equal(t, []int32{1, 7, 0}, ids)
	ids, err = v.Encode("a<|M|>b")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2, 3, 4, 3, 5, 1}, ids)
}

// Where added tokens touch, lie in one another or take the same white space, ids are the library's
// (testdata/added.py), for text with special tokens and without.
func TestAddedTokensThatTouch(t *testing.T) {
	data, err := os.ReadFile("testdata/added.json")
	require.NoError(t, err)
	var files []struct {
		File  json.RawMessage
		Cases []struct {
			Text string
			IDs  [2][]int32
		}
	}
	require.NoError(t, json.Unmarshal(data, &files))
	require.Len(t, files, 64)
	for n, f := range files {
		tok, err := Parse(f.File)
		require.NoError(t, err)
		for _, c := range f.Cases {
			special, err := tok.EncodeSpecial(c.Text)
			require.NoError(t, err)
			plain, err := tok.Encode(c.Text)
			require.NoError(t, err)
			require.Equal(t, c.IDs, [2][]int32{special, plain}, "file %d: %q", n, c.Text)
		}
	}
}
