package unmask

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"unmask/model"
	"unmask/tokenizers"
)

// Text is the side of a model that reads and writes text. Its methods may be called concurrently.
type Text struct {
	tokenizers.Tokenizer // masked positions show as Hole

	spec model.Spec
}

// Masks returns the tokens [length] of a run without known tokens. A length of 0 means the model's.
func (t *Text) Masks(length int) ([]int32, error) { return t.fit(nil, length) }

// Prompt returns the tokens [length] of a run that continues text: its tokens, then masks. The
// first is the end-of-text token if the vocabulary has one, because the models were trained on
// packed documents. A length of 0 means the model's.
func (t *Text) Prompt(text string, length int) ([]int32, error) {
	known, err := t.Encode(text)
	if err != nil {
		return nil, err
	}
	if end, ok := t.Special(tokenizers.EndOfText); ok {
		known = append([]int32{end}, known...)
	}
	return t.fit(known, length)
}

// hole matches a number of tokens in brackets: "[20]".
var hole = regexp.MustCompile(`\[([0-9]+)\]`)

// Infill returns the tokens [length] of a run that fills the holes of text, each written as a
// number of tokens in brackets: "Once upon a time there[3] girl named Lily.". Positions after the
// text are masked too; a length of 0 means that of the text.
func (t *Text) Infill(text string, length int) ([]int32, error) {
	var known []int32
	add := func(piece string) error {
		if piece == "" {
			return nil
		}
		ids, err := t.Encode(piece)
		known = append(known, ids...)
		return err
	}
	at := 0
	for _, h := range hole.FindAllStringSubmatchIndex(text, -1) {
		if err := add(text[at:h[0]]); err != nil {
			return nil, err
		}
		at = h[1]
		n, err := strconv.Atoi(text[h[2]:h[3]])
		if err != nil || n < 1 || n > t.spec.Length() {
			return nil, fmt.Errorf("hole is %s, want 1 to %d tokens", text[h[0]:h[1]], t.spec.Length())
		}
		known = append(known, slices.Repeat([]int32{t.spec.Mask}, n)...)
	}
	if at == 0 {
		return nil, fmt.Errorf("no hole, want one such as [20], which is 20 tokens")
	}
	if err := add(text[at:]); err != nil {
		return nil, err
	}
	if length == 0 && len(known) <= t.spec.Length() {
		length = len(known)
	}
	return t.fit(known, length)
}

// fit appends masks to known, up to length tokens, and puts the tokens around it that the model has
// around every text. These do not count in length.
func (t *Text) fit(known []int32, length int) ([]int32, error) {
	before, after := t.spec.Before, t.spec.After
	most := t.spec.Length() - len(before) - len(after)
	if length < 0 || length > most {
		return nil, fmt.Errorf("length is %d, want 1 to %d, or 0 for %d", length, most, most)
	}
	if length > 0 {
		most = length
	}
	if len(known) > most {
		return nil, fmt.Errorf("the given text is %d tokens, want at most %d", len(known), most)
	}
	return slices.Concat(before, known, slices.Repeat([]int32{t.spec.Mask}, most-len(known)),
		after), nil
}

// End returns the token that ends a text. text is an id such as 198, the spelling of a special
// token, or a text of one token; "" means <|endoftext|>.
func (t *Text) End(text string) (int32, error) {
	if text == "" {
		text = tokenizers.EndOfText
	}
	if _, ok := t.Special(text); !ok && text == tokenizers.EndOfText {
		return 0, fmt.Errorf("the vocabulary has no %s, want another token that ends a text", text)
	}
	ids, err := tokenIDs(t, t.spec, text)
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("%q is %d tokens, want one", text, len(ids))
	}
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// Cut returns tokens up to the first end token at or after position from, where generated text
// begins.
func Cut(tokens []int32, from int, end int32) []int32 {
	if n := slices.Index(tokens[from:], end); n >= 0 {
		return tokens[:from+n]
	}
	return tokens
}
