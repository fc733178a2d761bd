package tokenizers

import "fmt"

// WordBPE is a byte-level byte pair encoding of single words, for tokenizers that find words by
// rules of their own, such as CLIP's. It is safe for concurrent use.
type WordBPE struct{ bpe *bpe }

// NewWordBPE returns the encoding with a vocabulary in the alphabet of GPT-2 and merges, earliest
// first. The last byte of a word starts as the token with suffix (end_of_word_suffix of
// tokenizer.json) after its letter.
func NewWordBPE(vocab map[string]int32, merges [][2]string, suffix string) (*WordBPE, error) {
	b := newBPE()
	b.last = new([256]int32)
	for c, letter := range standIn {
		text, ok := string(letter), false
		if b.bytes[c], ok = vocab[text]; ok {
			text += suffix
			b.last[c], ok = vocab[text]
		}
		if !ok {
			return nil, fmt.Errorf("the vocabulary lacks the byte %q", text)
		}
	}
	for rank, m := range merges {
		left, ok := vocab[m[0]]
		right, also := vocab[m[1]]
		key := pair{left, right}
		if _, twice := b.merges[key]; ok && also && !twice {
			b.merges[key] = merge{rank: int32(rank), id: vocab[m[0]+m[1]]}
		}
	}
	return &WordBPE{b}, nil
}

// Append adds the ids of a word.
func (w *WordBPE) Append(ids []int32, word string) []int32 {
	ids, err := w.bpe.appendWord(ids, word, new(scratch))
	if err != nil {
		panic(err) // cannot happen: every byte has a token
	}
	return ids
}
