package gguf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words has the keys of a vocabulary of four tokens.
func words(more map[string]any) map[string]any {
	texts := func(all ...string) []byte {
		parts := []any{uint32(9), uint32(8), uint64(len(all))}
		for _, s := range all {
			parts = append(parts, uint64(len(s)), s)
		}
		return join(parts...)
	}
	keys := map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2",
		tokensKey:               texts("a", "b", "ab", "<|mask|>", "<tool>"),
		"tokenizer.ggml.merges": texts("a b", "<to ol>"), // the second never applies
		"tokenizer.ggml.token_type": join(uint32(9), uint32(5), uint64(5), uint32(1), uint32(1),
			uint32(1), uint32(3), uint32(4)),

		"tokenizer.ggml.mask_token_id": uint32(3), "tokenizer.chat_template": "{{ messages }}",
	}
	for k, v := range more {
		keys[k] = v
	}
	return keys
}

func TestFiles(t *testing.T) {
	f, err := Parse(build(words(nil)), "m.gguf")
	require.NoError(t, err)
	data, err := fs.ReadFile(f.CompanionFS(), "tokenizer.json")
	require.NoError(t, err)
	var tokenizer struct {
		Model struct {
			Vocab  map[string]int
			Merges []string
		}
		Normalizer  struct{ Type string }
		AddedTokens []struct {
			ID      int
			Content string
			Special bool
		} `json:"added_tokens"`
	}
	require.NoError(t, json.Unmarshal(data, &tokenizer))
	require.Equal(t, map[string]int{"a": 0, "b": 1, "ab": 2}, tokenizer.Model.Vocab)
	require.Equal(t, []string{"a b"}, tokenizer.Model.Merges)
	require.Equal(t, "NFC", tokenizer.Normalizer.Type)
	require.Len(t, tokenizer.AddedTokens, 2)
	require.True(t, tokenizer.AddedTokens[0].Special)
	require.Equal(t, "<tool>", tokenizer.AddedTokens[1].Content)
	require.False(t, tokenizer.AddedTokens[1].Special)

	data, err = fs.ReadFile(f.CompanionFS(), "tokenizer_config.json")
	require.NoError(t, err)
	require.JSONEq(t, `{"mask_token":"<|mask|>","chat_template":"{{ messages }}"}`, string(data))
	data, err = fs.ReadFile(f.CompanionFS(), "generation_config.json")
	require.NoError(t, err)
	require.JSONEq(t, `{"eos_token_id":[]}`, string(data))
	_, err = fs.Stat(f.CompanionFS(), "vocab.json")
	require.ErrorIs(t, err, fs.ErrNotExist)

	bare, err := Parse(build(nil), "m.gguf")
	require.NoError(t, err)
	_, err = fs.Stat(bare.CompanionFS(), "tokenizer.json")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFilesRefuse(t *testing.T) {
	for want, keys := range map[string]map[string]any{
		`key tokenizer.ggml.model is "llama", want gpt2`:                {"tokenizer.ggml.model": "llama"},
		`key tokenizer.ggml.pre is "mpt", want bailingmoe`:              {"tokenizer.ggml.pre": "mpt"},
		"key tokenizer.ggml.token_type has 1 entries, want 5 as tokens": {"tokenizer.ggml.token_type": join(uint32(9), uint32(5), uint64(1), uint32(1))},
		"key tokenizer.ggml.merges is a text, want an array":            {"tokenizer.ggml.merges": "x"},
		"key tokenizer.ggml.tokens is a 32-bit integer, want an array":  {tokensKey: uint32(3)},
		`tokens 0 and 1 are both "a"`: {tokensKey: join(uint32(9),
			uint32(8), uint64(2), uint64(1), "a", uint64(1), "a"),
			"tokenizer.ggml.token_type": join(uint32(9), uint32(5), uint64(2), uint32(1), uint32(1))},
		`token 0 is "\xff", want UTF-8`: {tokensKey: join(uint32(9),
			uint32(8), uint64(1), uint64(1), "\xff"),
			"tokenizer.ggml.token_type": join(uint32(9), uint32(5), uint64(1), uint32(1))},
	} {
		f, err := Parse(build(words(keys)), "m.gguf")
		require.NoError(t, err)
		_, err = fs.ReadFile(f.CompanionFS(), "tokenizer.json")
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "m.gguf: ")
	}
	f, err := Parse(build(words(map[string]any{"tokenizer.ggml.mask_token_id": uint32(9)})), "m.gguf")
	require.NoError(t, err)
	_, err = fs.ReadFile(f.CompanionFS(), "tokenizer_config.json")
	require.ErrorContains(t, err, "key tokenizer.ggml.mask_token_id is 9, want 0 to 4")
}

// A header that would take much memory once it is read is refused by its counts, at once.
func TestLargeVocabularies(t *testing.T) {
	repeated := func(kind uint32, n int, each ...byte) []byte {
		return join(uint32(9), kind, uint64(n), bytes.Repeat(each, n))
	}
	tokens := func(n int) []byte {
		b := join(uint32(9), uint32(8), uint64(n))
		for i := range n {
			b = join(b, uint64(4), fmt.Sprintf("%04x", i))
		}
		return b
	}
	empty := make([]byte, 8)
	control := []byte{controlToken, 0, 0, 0}
	for want, keys := range map[string]map[string]any{
		"tokenizer.ggml.token_type has over 4096": {tokensKey: tokens(5000),
			"tokenizer.ggml.token_type": repeated(5, 5000, control...)},
		"tokenizer.ggml.tokens is an array of 2000000": {tokensKey: repeated(8, 2_000_000, empty...)},
		"tokenizer.ggml.merges is an array of 2000000": {
			"tokenizer.ggml.merges": repeated(8, 2_000_000, empty...)},
		"tokenizer.ggml.token_type is an array of 3000000": {
			"tokenizer.ggml.token_type": repeated(0, 3_000_000, 1)},
		"tokenizer.ggml.tokens has 80000008 bytes": {tokensKey: join(uint32(9), uint32(8), uint64(1),
			uint64(80_000_000), bytes.Repeat([]byte("x"), 80_000_000))},
		"tokenizer.chat_template has 20000000 bytes": {
			"tokenizer.chat_template": strings.Repeat("x", 20_000_000)},
	} {
		f, err := Parse(build(words(keys)), "m.gguf")
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
			if _, err = fs.ReadFile(f.CompanionFS(), name); err != nil {
				break
			}
		}
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, want)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), want)
	}
}
