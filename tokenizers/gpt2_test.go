package tokenizers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The ids of some hundred texts of many scripts, of code, of runs of white space and of random
// tokens equal those that were recorded with the vocabulary of github.com/tiktoken-go/tokenizer
// v0.10.0 (r50k_base).
func TestGPT2EqualsRecordedIDs(t *testing.T) {
	data, err := os.ReadFile("testdata/gpt2-cases.json")
	require.NoError(t, err)
	var cases []struct {
		Text string
		IDs  []int32
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	require.GreaterOrEqual(t, len(cases), 400)
	for _, c := range cases {
		ids, err := GPT2().Encode(c.Text)
		require.NoError(t, err, "%q", c.Text)
		require.Equal(t, c.IDs, append([]int32{}, ids...), "%q", c.Text)
		require.Equal(t, c.Text, GPT2().Decode(ids))
	}
}

// All tokens of the vocabulary equal those recorded, of which there are 50256 and the end of text.
func TestGPT2VocabularyIsRecorded(t *testing.T) {
	h := sha256.New()
	for id := range int32(GPT2().VocabSize()) {
		text, ok := GPT2().Token(id)
		require.True(t, ok)
		h.Write([]byte{byte(len(text) >> 8), byte(len(text))})
		h.Write([]byte(text))
	}
	require.Equal(t, 50257, GPT2().VocabSize())
	require.Equal(t, "50533ab730aef809c773f9c23a02f40e2423b72be7e3e8e8e04e26f01e2cc843",
		hex.EncodeToString(h.Sum(nil)))
}

// Any text comes back from its ids.
func TestGPT2RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		ids, err := GPT2().Encode(text)
		require.NoError(t, err)
		require.Equal(t, text, GPT2().Decode(ids))
	})
}
