// Package tokenizers turns text into token ids and back: GPT-2's byte-level BPE with its
// vocabulary inside ([GPT2]), and the BPE files of Hugging Face's library ([Parse], [ParseFS]).
//
// Byte-level BPE (Radford et al. 2019, section 2.2; merges after Sennrich et al. 2016,
// algorithm 1) works on bytes, so a rune may be spread over several tokens. [Tokenizer.Token]
// gives the bytes of one id; [Tokenizer.Decode] and [Tokenizer.Pieces] put runes together.
//
// Splitting and merging are our own because the libraries at hand lose text.
// github.com/gomlx/go-huggingface v0.4.0 (hftokenizer) splits for a ByteLevel pre-tokenizer
// at spaces alone, where the format wants GPT-2's pattern: newlines, digits and punctuation
// get other ids than the checkpoint was trained on. It also drops what it cannot encode,
// takes special tokens out of any text and needs time quadratic in the length of a word.
// github.com/tiktoken-go/tokenizer v0.10.0 drops U+007F from any text, as its regular
// expressions do not match it; its vocabulary is exact and used here.
package tokenizers

import (
	"maps"
	"strings"
)

// Tokenizer is one vocabulary and its rules. Implementations are safe for concurrent use.
type Tokenizer interface {
	// Encode gives the ids of text. Spellings of special tokens such as <|endoftext|> are
	// plain text. It fails on invalid UTF-8, on text longer than [MaxText] bytes and on
	// text the vocabulary has no token for; nothing is dropped or replaced.
	Encode(text string) ([]int32, error)

	// EncodeSpecial is Encode, but spellings of special tokens become their ids.
	EncodeSpecial(text string) ([]int32, error)

	// Decode gives the text of ids, always valid UTF-8. Special tokens show as they are
	// spelled. An id outside the vocabulary, and bytes that form no rune, show as U+FFFD
	// (for bytes one per maximal subpart, Unicode 15 section 3.9).
	Decode(ids []int32) string

	// Pieces cuts Decode(ids) into one string for each id: joined they are Decode(ids). A
	// rune spread over several ids belongs to the first of them.
	Pieces(ids []int32) []string

	// Token gives the bytes of one id, perhaps part of a rune, and false for an id outside
	// the vocabulary.
	Token(id int32) (string, bool)

	// Special gives the id of a special token by its spelling.
	Special(spelling string) (int32, bool)

	// VocabSize is the largest id plus one.
	VocabSize() int
}

// WithMask makes id, the mask of a diffusion model, show as shown wherever t decodes it, so
// a sequence that is still partly masked has a visible hole at each masked position. The
// id may lie beyond t's vocabulary (GPT-2 with the mask at 50257); the result then counts
// it. EncodeSpecial reads shown back as id, which is how a prompt can carry holes. An
// empty shown hides the holes.
func WithMask(t Tokenizer, id int32, shown string) Tokenizer {
	return &masked{Tokenizer: t, id: id, shown: shown}
}

type masked struct {
	Tokenizer
	id    int32
	shown string
}

func (m *masked) Token(id int32) (string, bool) {
	if id == m.id {
		return m.shown, true
	}
	return m.Tokenizer.Token(id)
}

func (m *masked) Decode(ids []int32) string   { return strings.Join(m.Pieces(ids), "") }
func (m *masked) Pieces(ids []int32) []string { return m.pieces(ids, nil) }

// pieces shows masks in what the tokenizer below decodes, where that can, otherwise among the
// bytes of its tokens.
func (m *masked) pieces(ids []int32, shown map[int32]string) []string {
	all := map[int32]string{m.id: m.shown}
	maps.Copy(all, shown)
	if t, ok := m.Tokenizer.(interface {
		pieces([]int32, map[int32]string) []string
	}); ok {
		return t.pieces(ids, all)
	}
	parts := make(spelled, len(ids))
	for i, id := range ids {
		text, ok := all[id]
		if !ok {
			if text, ok = m.Tokenizer.Token(id); !ok {
				text = replacement
			}
		}
		parts[i] = share{text: text, owner: i}
	}
	out := make([]string, len(ids))
	for i, part := range wholeRunes(parts) {
		out[i] = part.text
	}
	return out
}

func (m *masked) VocabSize() int { return max(m.Tokenizer.VocabSize(), int(m.id)+1) }

func (m *masked) Special(spelling string) (int32, bool) {
	if spelling == m.shown && m.shown != "" {
		return m.id, true
	}
	return m.Tokenizer.Special(spelling)
}

func (m *masked) EncodeSpecial(text string) ([]int32, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	if m.shown == "" {
		return m.Tokenizer.EncodeSpecial(text)
	}
	var ids []int32
	for {
		before, after, found := strings.Cut(text, m.shown)
		part, err := m.Tokenizer.EncodeSpecial(before)
		if err != nil {
			return nil, err
		}
		ids = append(ids, part...)
		if !found {
			return ids, nil
		}
		ids, text = append(ids, m.id), after
	}
}
