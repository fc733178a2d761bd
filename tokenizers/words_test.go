package tokenizers

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A folder's tokenizer.json counts, not its vocab.txt; tokenizer_config.json sets the normalizer of
// BertTokenizer in both. Ids are those of AutoTokenizer (transformers 5.24).
func TestFoldersOfBERT(t *testing.T) {
	const vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nże\nze\n你\n好\n##好\nThe\nthe\n"
	const added = `{"id":12,"content":"[GLY]","special":false,"single_word":false,"lstrip":false,` +
		`"rstrip":false,"normalized":true}`
	file := func(normalizer string) string {
		return `{"added_tokens":[` + added + `],"normalizer":{"type":"BertNormalizer"` + normalizer +
			`},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":null,"decoder":` +
			`{"type":"WordPiece","prefix":"##","cleanup":true},"model":{"type":"WordPiece",` +
			`"unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,` +
			`"vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"[MASK]":4,"że":5,"ze":6,"你":7,"好":8,` +
			`"##好":9,"The":10,"the":11}}}`
	}
	for _, c := range []struct {
		name, config, file, text string
		want                     []int32
	}{
		{"vocab.txt of the class", `{}`, "", "The że 你好", []int32{11, 6, 7, 8}},
		{"accents kept", `{"strip_accents":false}`, "", "The że 你好", []int32{11, 5, 7, 8}},
		{"Chinese words", `{"tokenize_chinese_chars":false}`, "", "你好", []int32{7, 9}},
		{"case and accents kept", `{"do_lower_case":false}`, "", "The że", []int32{10, 5}},
		{"added tokens", `{"added_tokens_decoder":{"12":` + added + `}}`, "", "the [GLY]the",
			[]int32{11, 12, 11}},
		{"tokenizer.json of its own word", `{}`, file(`,"lowercase":false`), "The że [GLY]",
			[]int32{10, 5, 12}},
		{"another class reads tokenizer.json alone", `{"tokenizer_class":"PreTrainedTokenizerFast",
			"do_lower_case":true}`, file(`,"lowercase":false`), "The że", []int32{10, 5}},
		{"the class reads tokenizer_config.json", `{"tokenizer_class":"BertTokenizerFast",
			"strip_accents":false,"do_lower_case":true}`, file(`,"lowercase":false`), "The że",
			[]int32{11, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := fstest.MapFS{"vocab.txt": {Data: []byte(vocab)},
				"tokenizer_config.json": {Data: []byte(c.config)}}
			if c.file != "" {
				files["tokenizer.json"] = &fstest.MapFile{Data: []byte(c.file)}
			}
			tok, _, err := ParseFS(files)
			require.NoError(t, err)
			ids, err := tok.Encode(c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, ids)
		})
	}
}

// A vocab.txt with the bars and long ring numbers of extended SMILES is one of SMILES.
func TestExtendedSMILES(t *testing.T) {
	tok, _, err := ParseFS(fstest.MapFS{"vocab.txt": {Data: []byte(
		"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nC\nCl\n|\n%(123)\n=\n")}})
	require.NoError(t, err)
	ids, err := tok.Encode("CCl|C%(123)")
	require.NoError(t, err)
	require.Equal(t, []int32{5, 6, 7, 5, 8}, ids)
	require.Equal(t, "CCl|C%(123)", tok.Decode(ids))
	_, err = tok.Encode("Cx")
	require.EqualError(t, err, `text: "x" after 1 characters is not SMILES`)
}

// A vocab.json with no merges has a token for each character (Sapiens' class of residues).
func TestNoMerges(t *testing.T) {
	tok, _, err := ParseFS(fstest.MapFS{"merges.txt": {Data: []byte("#version: 0.2\n")},
		"vocab.json":            {Data: []byte(`{"<s>":0,"<pad>":1,"</s>":2,"<mask>":3,"A":4,"C":5}`)},
		"tokenizer_config.json": {Data: []byte(`{"tokenizer_class":"RobertaTokenizer"}`)}})
	require.NoError(t, err)
	ids, err := tok.Encode("ACA")
	require.NoError(t, err)
	require.Equal(t, []int32{4, 5, 4}, ids)
	id, ok := tok.Special("<mask>")
	require.True(t, ok)
	require.EqualValues(t, 3, id)
}

// An added token that a list of residues lacks has no row.
func TestAddedTokensOfResidues(t *testing.T) {
	_, _, err := ParseFS(fstest.MapFS{"vocab.txt": {Data: []byte("<cls>\n<eos>\nA\nC\n")},
		"added_tokens.json": {Data: []byte(`{"<x>":4}`)}})
	require.EqualError(t, err, `vocab.txt: added token "<x>" is missing, want all tokens in vocab.txt `+
		`where they are residues or SMILES`)
}
