// Package tokenizers turns text into token ids and back: GPT-2's byte-level BPE with its built-in
// vocabulary ([GPT2]), and the BPE files of Hugging Face's library ([Parse], [ParseFS]).
//
// Byte-level BPE (Radford et al. 2019, section 2.2; merges after Sennrich et al. 2016, algorithm 1)
// works on bytes, so a rune may be spread over several tokens. [Tokenizer.Token] returns the bytes
// of one id; [Tokenizer.Decode] and [Tokenizer.Pieces] put runes together.
//
// Merging, and what splits for it, are our own because the libraries at hand lose text.
// github.com/gomlx/go-huggingface v0.4.0 (hftokenizer) splits for a ByteLevel pre-tokenizer
// at spaces alone, where the format wants GPT-2's pattern: newlines, digits and punctuation
// get other ids than the checkpoint was trained on. It also drops what it cannot encode,
// takes special tokens out of any text and needs time quadratic in the length of a word.
// github.com/tiktoken-go/tokenizer v0.10.0 drops U+007F from any text, as its regular
// expressions do not match it, and has 16 MB of source for the one vocabulary of GPT-2 that
// is embedded here.
package tokenizers

import (
	"maps"
	"strings"
)

// Tokenizer is a vocabulary with its rules. Implementations are safe for concurrent use.
type Tokenizer interface {
	// Encode returns the ids of text. Texts of special tokens such as <|endoftext|> are plain
	// text, also where the file's vocabulary and merges have them: no special token but the unknown
	// one comes from text. It returns an error for invalid UTF-8, for text longer than [MaxText]
	// bytes and for text without tokens in the vocabulary ([WithUnknown] changes that); it never
	// drops or replaces anything.
	Encode(text string) ([]int32, error)

	// EncodeSpecial is Encode, but the texts of special tokens become their ids.
	EncodeSpecial(text string) ([]int32, error)

	// Decode returns the text of ids, always valid UTF-8. Special tokens are shown with their
	// text. An id outside the vocabulary, and bytes that form no rune, are shown as U+FFFD (for
	// bytes one per maximal subpart, Unicode 15 section 3.9).
	Decode(ids []int32) string

	// Pieces divides Decode(ids) into one string for each id: joined they are Decode(ids). A rune
	// spread over several ids belongs to the first of them.
	Pieces(ids []int32) []string

	// Token returns the bytes of one id, which may be part of a rune, and false for an id outside
	// the vocabulary.
	Token(id int32) (string, bool)

	// Special returns the id of a special token, given its text.
	Special(text string) (int32, bool)

	// VocabSize returns the largest id plus one.
	VocabSize() int
}

// WithMask returns a tokenizer that decodes id, the mask of a diffusion model, as maskText, so that
// masked positions are visible. The id may be beyond t's vocabulary (GPT-2 with the mask at 50257);
// the result then includes it. EncodeSpecial reads maskText back as id, so that a prompt can have
// holes, and plain text never becomes it. With an empty maskText masks are not shown.
func WithMask(t Tokenizer, id int32, maskText string) Tokenizer {
	return &masked{Tokenizer: WithSpecial(t, id), id: id, maskText: maskText}
}

type masked struct {
	Tokenizer
	id       int32
	maskText string
}

// Token implements Tokenizer.
func (m *masked) Token(id int32) (string, bool) {
	if id == m.id {
		return m.maskText, true
	}
	return m.Tokenizer.Token(id)
}

func (m *masked) Decode(ids []int32) string   { return strings.Join(m.Pieces(ids), "") }
func (m *masked) Pieces(ids []int32) []string { return m.decodePieces(ids, nil) }

// decodePieces shows masks, and other ids that shown has, within the output of the tokenizer below
// if that supports it, otherwise among the bytes of its tokens.
func (m *masked) decodePieces(ids []int32, shown map[int32]string) []string {
	withMask := map[int32]string{m.id: m.maskText}
	maps.Copy(withMask, shown)
	if t, ok := m.Tokenizer.(interface {
		decodePieces([]int32, map[int32]string) []string
	}); ok {
		return t.decodePieces(ids, withMask)
	}
	parts := make(decoderToken, len(ids))
	for i, id := range ids {
		text, ok := withMask[id]
		if !ok {
			text, ok = m.Tokenizer.Token(id)
		}
		if !ok {
			text = replacement
		}
		parts[i] = fragment{text: text, owner: i}
	}
	out := make([]string, len(ids))
	for i, part := range assignRunes(parts) {
		out[i] = part.text
	}
	return out
}

func (m *masked) VocabSize() int { return max(m.Tokenizer.VocabSize(), int(m.id)+1) }

// Special implements Tokenizer.
func (m *masked) Special(text string) (int32, bool) {
	if text == m.maskText && m.maskText != "" {
		return m.id, true
	}
	return m.Tokenizer.Special(text)
}

// EncodeSpecial implements Tokenizer. The tokenizer below does not know the mask's text, so the
// text is cut at it.
func (m *masked) EncodeSpecial(text string) ([]int32, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	if m.maskText == "" {
		return m.Tokenizer.EncodeSpecial(text)
	}
	var ids []int32
	for {
		before, after, found := strings.Cut(text, m.maskText)
		part, err := m.Tokenizer.EncodeSpecial(before)
		if err != nil {
			return nil, err
		}
		ids = append(ids, part...)
		if !found {
			return ids, nil
		}
		ids = append(ids, m.id)
		text = after
	}
}
