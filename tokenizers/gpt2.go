package tokenizers

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	_ "embed"
)

// EndOfText is the text of GPT-2's only special token, id 50256.
const EndOfText = "<|endoftext|>"

// The tokens of GPT-2: one for each byte, those merged from two, and [EndOfText] as the last.
const (
	gpt2Bytes  = 256
	gpt2Merges = 50_000
)

// gpt2File is the vocabulary of GPT-2 (Radford et al. 2019; vocab.bpe of openai/gpt-2, which
// tiktoken calls r50k_base), compressed by gzip: 256 bytes in the order of their ids, and then for
// each id from 256 on the ids of the two tokens that it is merged from, as little-endian numbers of
// 16 bits. The order of the merges is that of their ids.
//
// The halves of a token are in no published file of ids. They were found once, with the vocabulary
// of github.com/tiktoken-go/tokenizer v0.10.0 (codec.NewR50kBase, Decode of each id): in the order
// of ids, the bytes of a token are merged by the merges of all earlier ids, and two tokens are
// left.
//
//go:embed gpt2.merges.gz
var gpt2File []byte

// GPT2 returns the tokenizer of GPT-2, 50257 ids, with its vocabulary built in (r50k_base). It is
// made at the first call and shared. Masked diffusion models with it (MDLM, SDTT) have 50257 as
// their mask: WithMask(GPT2(), 50257, "▯").
func GPT2() Tokenizer { return gpt2() }

var gpt2 = sync.OnceValue(func() Tokenizer {
	v, err := readGPT2(gpt2File)
	if err != nil {
		panic("tokenizers: GPT-2 vocabulary: " + err.Error()) // cannot happen: the file is embedded
	}
	return v
})

// readGPT2 reads the embedded tokenizer of GPT-2: the bytes in the order of their ids, and for each
// further id the two ids that merge into it, so that ranks and texts need no place.
func readGPT2(file []byte) (*vocabulary, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, err
	}
	if size := gpt2Bytes + 4*gpt2Merges; len(data) != size {
		return nil, fmt.Errorf("%d bytes, want %d", len(data), size)
	}

	b := newBPE()
	v := &vocabulary{model: b, byteLevel: true}
	v.preTokenizer.bytes = true
	v.preTokenizer.addSplit(compilePattern(gpt2Pattern), false, behaviours["Isolated"])
	for id, c := range data[:gpt2Bytes] {
		b.byteIDs[c] = int32(id)
		v.tokens = append(v.tokens, string([]byte{c}))
	}
	for halves := data[gpt2Bytes:]; len(halves) > 0; halves = halves[4:] {
		id := int32(len(v.tokens))
		left := int32(binary.LittleEndian.Uint16(halves))
		right := int32(binary.LittleEndian.Uint16(halves[2:]))
		b.merges[pair{left, right}] = merge{rank: id, id: id}
		v.tokens = append(v.tokens, v.tokens[left]+v.tokens[right])
	}

	end := addedToken{text: EndOfText, id: int32(len(v.tokens)), special: true}
	v.tokens = append(v.tokens, EndOfText)
	if err := v.setAdded([]addedToken{end}); err != nil {
		return nil, err
	}
	return v, v.setRoles(classRoles["GPT2Tokenizer"])
}
