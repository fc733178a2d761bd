package tokenizers

import (
	"fmt"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// EndOfText is the spelling of GPT-2's only special token, id 50256.
const EndOfText = "<|endoftext|>"

const gpt2Merged = 50256 // byte and merged tokens; [EndOfText] follows

// GPT2 is the tokenizer of GPT-2, 50257 ids, its vocabulary built in (r50k_base). It is made
// once and shared. Masked diffusion models over it (MDLM, SDTT) use 50257 as their mask:
// WithMask(GPT2(), 50257, "▯").
func GPT2() Tokenizer { return gpt2() }

var gpt2 = sync.OnceValue(func() Tokenizer {
	c := codec.NewR50kBase()
	tokens := make([]string, 0, gpt2Merged+1)
	for id := range uint(gpt2Merged) {
		token, err := c.Decode([]uint{id})
		if err != nil {
			panic(fmt.Sprintf("tokenizers: GPT-2 vocabulary: id %d: %v", id, err))
		}
		tokens = append(tokens, token)
	}
	tokens = append(tokens, EndOfText)
	v, err := newVocabulary(tokens, []added{{EndOfText, gpt2Merged, true}}, func(text string) ([]int32, error) {
		ids, _, err := c.Encode(text)
		if err != nil {
			return nil, fmt.Errorf("text: %w", err)
		}
		out := make([]int32, len(ids))
		for i, id := range ids {
			out[i] = int32(id)
		}
		return out, nil
	})
	if err != nil {
		panic("tokenizers: GPT-2 vocabulary: " + err.Error())
	}
	return v
})
