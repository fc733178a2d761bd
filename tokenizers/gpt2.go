package tokenizers

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// EndOfText is the spelling of GPT-2's only special token, id 50256.
const EndOfText = "<|endoftext|>"

const gpt2Merged = 50256 // byte and merged tokens; [EndOfText] follows

// GPT2 returns the tokenizer of GPT-2, 50257 ids, with its vocabulary built in (r50k_base). It is
// made once and shared. Masked diffusion models with it (MDLM, SDTT) have 50257 as their mask:
// WithMask(GPT2(), 50257, "▯").
func GPT2() Tokenizer { return gpt2() }

var gpt2 = sync.OnceValue(func() Tokenizer {
	c := codec.NewR50kBase()
	b := newBPE()
	v := &vocabulary{model: b, bytes: true}
	v.cut.bytes = true
	v.cut.split(compile(gpt2Pattern), false, behaviours["Isolated"])
	var memory scratch
	for id := range int32(gpt2Merged) {
		token, err := c.Decode([]uint{uint(id)})
		if err == nil {
			err = b.grow(token, id, &memory)
		}
		if err != nil {
			panic(fmt.Sprintf("tokenizers: GPT-2 vocabulary: id %d: %v", id, err))
		}
		v.tokens = append(v.tokens, token)
	}
	v.tokens = append(v.tokens, EndOfText)
	if err := cmp.Or(v.setAdded([]added{{text: EndOfText, id: gpt2Merged, special: true}}),
		v.setRoles(classRoles["GPT2Tokenizer"])); err != nil {
		panic("tokenizers: GPT-2 vocabulary: " + err.Error())
	}
	return v
})

// grow adds the next token of a vocabulary in merge order. Its two halves are the result of the
// earlier merges of its bytes.
func (b *bpe) grow(token string, id int32, s *scratch) error {
	if len(token) == 1 {
		b.bytes[token[0]] = id
		return nil
	}
	halves, err := b.appendWord(nil, token, s)
	if err != nil {
		return err
	}
	if len(halves) != 2 {
		return fmt.Errorf("%q is merged from %d tokens, want 2", token, len(halves))
	}
	b.merges[pair{halves[0], halves[1]}] = merge{rank: id, id: id}
	return nil
}
