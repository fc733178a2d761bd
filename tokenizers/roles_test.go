package tokenizers

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// rolesFile is a tokenizer.json with a post_processor.
func rolesFile(processor string) string {
	var added []string
	for id, text := range []string{"<s>", "</s>", EndOfText, "<|im_end|>"} {
		added = append(added, fmt.Sprintf(`{"id":%d,"content":%q,"special":true,"single_word":false,`+
			`"lstrip":false,"rstrip":false,"normalized":false}`, id, text))
	}
	return `{"added_tokens":[` + strings.Join(added, ",") + `],"normalizer":null,"pre_tokenizer":` +
		`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},` +
		`"post_processor":` + processor + `,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE",` +
		`"vocab":{"<s>":0,"</s>":1,"<|endoftext|>":2,"<|im_end|>":3,"a":4,"b":5},"merges":[]}}`
}

const beginTemplate = `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>",` +
	`"type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":` +
	`{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}}`

// The ids of "ab" and the roles are AutoTokenizer's for the same folders (transformers 5.24).
func TestRolesAndAround(t *testing.T) {
	const vocab = `{"<s>":0,"</s>":1,"<|endoftext|>":2,"<unk>":3,"a":4,"b":5,"<pad>":6,"<mask>":7}`
	plain, begins := rolesFile("null"), rolesFile(beginTemplate)
	folder := func(texts ...string) fstest.MapFS {
		files := fstest.MapFS{"tokenizer_config.json": {Data: []byte(texts[0])}}
		for i := 1; i < len(texts); i += 2 {
			files[texts[i]] = &fstest.MapFile{Data: []byte(texts[i+1])}
		}
		return files
	}
	older := []string{"vocab.json", vocab, "merges.txt", "#version: 0.2\n"}
	bert := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\na\n##b\n"
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		ids   []int32
		roles map[string]int32
	}{
		{"a processor of nothing", folder(`{"eos_token":"</s>","add_bos_token":true}`, "tokenizer.json",
			plain), []int32{4, 5}, map[string]int32{"eos_token": 1}},
		{"the processor counts, not add_bos_token", folder(`{"bos_token":"<s>","eos_token":null,
			"add_bos_token":false,"add_eos_token":true}`, "tokenizer.json", begins), []int32{0, 4, 5},
			map[string]int32{"bos_token": 0}},
		{"roles of the class", folder(`{"tokenizer_class":"Qwen2TokenizerFast"}`, "tokenizer.json",
			plain), []int32{4, 5}, map[string]int32{"eos_token": 2, "pad_token": 2, "unk_token": 2}},
		{"the map counts more", folder(`{"eos_token":"<s>"}`, "tokenizer.json", plain,
			"special_tokens_map.json", `{"eos_token":{"content":"</s>"}}`), []int32{4, 5},
			map[string]int32{"eos_token": 1}},
		{"or not at all", folder(`{"eos_token":"<s>","added_tokens_decoder":{}}`, "tokenizer.json", plain,
			"special_tokens_map.json", `{"eos_token":"</s>","pad_token":"<s>"}`), []int32{4, 5},
			map[string]int32{"eos_token": 0}},
		{"Qwen's without tokenizer.json", folder(append([]string{
			`{"tokenizer_class":"Qwen2Tokenizer","bos_token":"<s>","add_bos_token":true,
			"add_eos_token":true}`}, older...)...), []int32{0, 4, 5, 2},
			map[string]int32{"bos_token": 0, "eos_token": 2, "pad_token": 2, "unk_token": 2}},
		{"GPT-2's without tokenizer.json", folder(append([]string{`{}`}, older...)...), []int32{4, 5},
			map[string]int32{"bos_token": 2, "eos_token": 2, "unk_token": 2}},
		{"RoBERTa's without tokenizer.json", folder(append([]string{
			`{"tokenizer_class":"RobertaTokenizer","add_bos_token":false}`}, older...)...),
			[]int32{0, 4, 5, 1}, map[string]int32{"bos_token": 0, "eos_token": 1, "sep_token": 1,
				"cls_token": 0, "unk_token": 3, "pad_token": 6, "mask_token": 7}},
		{"BERT's", folder(`{"tokenizer_class":"BertTokenizer","sep_token":"[MASK]"}`, "vocab.txt", bert),
			[]int32{2, 5, 4}, map[string]int32{"pad_token": 0, "unk_token": 1, "cls_token": 2,
				"sep_token": 4, "mask_token": 4}},
		{"BERT's without a config", folder(`{}`, "vocab.txt", bert), []int32{2, 5, 3},
			map[string]int32{"pad_token": 0, "unk_token": 1, "cls_token": 2, "sep_token": 3,
				"mask_token": 4}},
		{"ESM's, which does not read tokenizer.json", folder(`{"tokenizer_class":"EsmTokenizer"}`,
			"vocab.txt", "<cls>\n<pad>\n<eos>\n<unk>\na\nb\n<mask>\n", "tokenizer.json", plain),
			[]int32{0, 4, 5, 2}, map[string]int32{"cls_token": 0, "pad_token": 1, "eos_token": 2,
				"unk_token": 3, "mask_token": 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, _, err := ParseFS(c.files)
			require.NoError(t, err)
			tok = WithMask(tok, 100, "▯")
			ids, err := tok.Encode("ab")
			require.NoError(t, err)
			before, after := SurroundingTokens(tok)
			require.Equal(t, c.ids, append(append(before, ids...), after...))
			roles := map[string]int32{}
			for _, role := range Roles {
				if id, ok := Role(tok, role); ok {
					roles[role] = id
				}
			}
			require.Equal(t, c.roles, roles)
		})
	}
}

// What the built-in tokenizer has is what GPT-2's files say.
func TestRolesOfGPT2(t *testing.T) {
	before, after := SurroundingTokens(GPT2())
	require.Empty(t, before)
	require.Empty(t, after)
	for role, want := range map[string]bool{"bos_token": true, "eos_token": true, "pad_token": false} {
		id, ok := Role(GPT2(), role)
		require.Equal(t, want, ok, role)
		if ok {
			require.EqualValues(t, 50256, id, role)
		}
	}
}

// A token with a role is special, whatever tokenizer.json calls it; an added token that is white
// space is found after one that takes the white space behind it (both as AutoTokenizer does).
func TestAddedTokensOfFolders(t *testing.T) {
	file := func(added string) []byte {
		return []byte(`{"added_tokens":[{"id":3,"content":` + added + `}],"normalizer":null,` +
			`"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,` +
			`"use_regex":false},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":` +
			`{"type":"BPE","vocab":{"a":0,"b":1,"|":2},"merges":[]}}`)
	}
	for _, c := range []struct {
		name, file, config, text string
		plain, special           []int32
	}{
		{"a role", `"|a|"`, `{"eos_token":"|a|"}`, "b|a|", []int32{1, 2, 0, 2}, []int32{1, 3}},
		{"no role", `"|a|"`, `{}`, "b|a|", []int32{1, 3}, []int32{1, 3}},
		{"white space", `" ","rstrip":true`, `{}`, "a  b", []int32{0, 3, 3, 1}, []int32{0, 3, 3, 1}},
		{"white space that was taken", `" ","rstrip":true,"lstrip":true`, `{}`, "a  b",
			[]int32{0, 3, 1}, []int32{0, 3, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, _, err := ParseFS(fstest.MapFS{"tokenizer.json": {Data: file(c.file)},
				"tokenizer_config.json": {Data: []byte(c.config)}})
			require.NoError(t, err)
			ids, err := tok.Encode(c.text)
			require.NoError(t, err)
			require.Equal(t, c.plain, ids)
			ids, err = tok.EncodeSpecial(c.text)
			require.NoError(t, err)
			require.Equal(t, c.special, ids)
		})
	}
}
