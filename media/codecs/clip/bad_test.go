package clip_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/media/codecs/clip"
	"unmask/model"
	"unmask/testkit/parity"
)

// files returns the tokenizer of the pack, for tests that damage it.
func files(t testing.TB) fstest.MapFS {
	dir := parity.OpenCases(t, "amused-256-tiny").Dir("tokenizer")
	m := fstest.MapFS{}
	for _, name := range []string{"vocab.json", "merges.txt", "special_tokens_map.json",
		"tokenizer_config.json"} {
		data, err := os.ReadFile(dir + "/" + name)
		require.NoError(t, err)
		m[name] = &fstest.MapFile{Data: data}
	}
	return m
}

func TestBadTokenizers(t *testing.T) {
	for _, c := range []struct{ file, from, to, want string }{
		{"vocab.json", "<|endoftext|>", "<|end|>", "the vocabulary lacks <|endoftext|>: not CLIP's"},
		{"vocab.json", "{", "[", "vocab.json: "},
		{"merges.txt", "#version: 0.2\n", "#version: 0.2\na\n",
			`merges.txt: line 2 is "a\n", want two tokens`},
		{"merges.txt", "#version: 0.2\n", "#version: 0.2\nq q\n",
			`model.merges[0] "q" "q": "qq" is not in model.vocab`},
		{"special_tokens_map.json", `"pad_token": "<|endoftext|>"`, `"pad_token": "<pad>"`,
			`special_tokens_map.json: pad_token is "<pad>", want a token of the vocabulary`},
		{"special_tokens_map.json", `"pad_token": "<|endoftext|>"`, `"pad_token": 3`,
			"special_tokens_map.json: pad_token: "},
	} {
		m := files(t)
		text := string(m[c.file].Data)
		require.Contains(t, text, c.from)
		m[c.file] = &fstest.MapFile{Data: []byte(strings.Replace(text, c.from, c.to, 1))}
		_, err := clip.OpenTokenizer(m)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
	m := files(t)
	delete(m, "vocab.json")
	_, err := clip.OpenTokenizer(m)
	require.ErrorContains(t, err, "neither vocab.json nor tokenizer.json")

	// Files may name another padding token: id 0 is "!".
	m = files(t)
	m["special_tokens_map.json"] = &fstest.MapFile{Data: []byte(`{"pad_token": {"content": "!"}}`)}
	tok, err := clip.OpenTokenizer(m)
	require.NoError(t, err)
	require.Equal(t, int32(0), tok.Pad())
}

func TestWordsAndCuts(t *testing.T) {
	tok, err := clip.OpenTokenizer(files(t))
	require.NoError(t, err)
	same := func(a, b string) {
		x, _, err := tok.Encode(a, 77, 0)
		require.NoError(t, err)
		y, _, err := tok.Encode(b, 77, 0)
		require.NoError(t, err)
		require.Equal(t, y, x, "%q and %q", a, b)
	}
	same("  THE\u00a0 Thing\n", "the thing")
	same("cafe\u0301", "caf\u00e9")
	same("\u0391\u03a3", "\u03b1\u03c3") // no special sigma at the end of a word
	same("\xff", "\ufffd")
	ids, cut, err := tok.Encode(strings.Repeat("x ", 200), 77, 0)
	require.NoError(t, err)
	require.True(t, cut)
	require.Len(t, ids, 77)
	require.Equal(t, int32(537), ids[76])
	_, _, err = tok.Encode(strings.Repeat("x", clip.MaxText+1), 77, 0)
	require.EqualError(t, err, "the prompt is 8193 bytes, want 0 to 8192")
}

// Any vocabulary gives a tokenizer that returns its own ids, or a one-line error.
func FuzzTokenizer(f *testing.F) {
	good := files(f)
	f.Add(good["vocab.json"].Data, good["merges.txt"].Data, good["special_tokens_map.json"].Data,
		"a photo")
	f.Add([]byte(`{"a":-1}`), []byte("a b c"), []byte(`{"pad_token": null}`), "\xff")
	f.Fuzz(func(t *testing.T, vocab, merges, special []byte, text string) {
		tok, err := clip.OpenTokenizer(fstest.MapFS{"vocab.json": {Data: vocab},
			"merges.txt": {Data: merges}, "special_tokens_map.json": {Data: special}})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		ids, _, err := tok.Encode(text, 77, tok.Pad())
		if err == nil {
			require.Len(t, ids, 77)
			for _, id := range ids {
				require.Less(t, int(id), tok.VocabSize())
			}
		}
	})
}

func TestBadTextEncoders(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"num_attention_heads": 4`, `"num_attention_heads": 5`,
			"num_attention_heads is 5, want a divisor of the width 32"},
		{`"num_attention_heads": 4`, `"num_attention_heads": 0`, "num_attention_heads is 0"},
		{`"quick_gelu"`, `"relu"`, `hidden_act is "relu", want quick_gelu or gelu`},
		{`1e-05`, `1e-06`, `layer_norm_eps is 1e-06, want 0.00001: this network computes no other`},
	} {
		p := parity.Open(t, "clip-text-tiny")
		require.Contains(t, string(p.Config), c.from)
		p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
		_, err := clip.Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c.want)
	}
	_, err := clip.Load(parity.Open(t, "mage-tiny").Source, model.Options{Backend: plain.New()})
	require.ErrorContains(t, err, "is missing: not CLIP's text encoder")
	p := parity.Open(t, "clip-text-tiny")
	m, err := clip.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	_, err = m.Encode(t.Context(), [][]int32{make([]int32, 76)})
	require.EqualError(t, err, "text 0 has 76 ids, want 77")
	ids := make([]int32, 77)
	ids[3] = 99
	_, err = m.Encode(t.Context(), [][]int32{ids})
	require.EqualError(t, err, "id 3 of text 0 is 99, want 0 to 98")
	ids[3] = 98
	_, err = m.Encode(t.Context(), [][]int32{ids})
	require.NoError(t, err)
	require.NoError(t, p.Set.Close()) // the ids' rows are read from the file
	_, err = m.Encode(t.Context(), [][]int32{ids})
	require.ErrorContains(t, err, "the set is closed")
}

// The end of a text is the id of config.json's eos_token_id or, in old files, the largest id.
func TestEndOfAText(t *testing.T) {
	ids := make([]int32, 77)
	ids[3], ids[5], ids[9] = 98, 50, 50
	pooled := func(end string) []float32 {
		p := parity.Open(t, "clip-text-tiny")
		p.Config = []byte(strings.Replace(string(p.Config), `"eos_token_id": 2`, end, 1))
		m, err := clip.Load(p.Source, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		made, err := m.Encode(t.Context(), [][]int32{ids})
		require.NoError(t, err)
		return made[0].Pooled
	}
	largest := pooled(`"eos_token_id": 2`)
	require.Equal(t, largest, pooled(`"eos_token_id": 98`))
	at := pooled(`"eos_token_id": 50`)
	require.NotEqual(t, largest, at)
	ids[3] = 0
	require.NotEqual(t, at, pooled(`"eos_token_id": 50`)) // what is before the end counts
	require.Equal(t, pooled(`"eos_token_id": 2`), pooled(`"eos_token_id": 50`))
}
