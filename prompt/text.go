// Package prompt knows what a text means to a model before anything is generated: how a prompt, a
// text with holes and what stands around them become tokens (Text), and how a schema, an
// expression, choices or calls of functions become a language over tokens (Languages).
//
// It needs a tokenizer and the network's Spec, and neither weights nor a sampler. The package above
// it, unmask, decides when each part is used for a request.
package prompt

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unmask/model"
	"unmask/param"
	"unmask/tokenizers"
)

// Hole is the character of a masked position in decoded text.
const Hole = "▯"

// Text is the side of a model that reads and writes text. Its methods may be called concurrently.
type Text struct {
	// Tokenizer shows masked positions as Hole.
	tokenizers.Tokenizer

	spec model.Spec

	// first and last are the tokens that the tokenizer's files put before and after every text.
	// They count in its length.
	first, last []int32

	// pads are the tokens that stand for nothing in a text.
	pads []int32

	// continued are the tokens that a text which is continued begins with, after first
	// (model.Loaded.Begin).
	continued []int32
}

// NewText returns the text side of a loaded network, nil if it has no tokenizer.
func NewText(l *model.Loaded) *Text {
	if l.Tokenizer == nil {
		return nil
	}
	spec := l.Spec()
	special := append(slices.Clone(spec.EndTokens), spec.Mask)
	tokenizer := tokenizers.WithSpecial(l.Tokenizer, special...)
	if spelling, _ := tokenizer.Token(spec.Mask); spelling != Hole {
		tokenizer = tokenizers.WithMask(tokenizer, spec.Mask, Hole)
	}

	t := &Text{Tokenizer: tokenizer, spec: spec, continued: l.BeginTokens}
	// A network that says itself what stands around a text must not get the tokenizer's tokens too.
	if l.BeginTokens == nil && spec.SpecialCount() == 0 {
		t.first, t.last = tokenizers.SurroundingTokens(tokenizer)
	}
	if pad := l.PadToken; pad != nil && !slices.Contains(spec.EndTokens, *pad) {
		t.pads = []int32{*pad}
	}
	return t
}

// WithContext returns t for the texts of one request: encoding ends soon after ctx is done.
func (t *Text) WithContext(ctx context.Context) *Text {
	out := *t
	out.Tokenizer = tokenizers.WithContext(ctx, t.Tokenizer)
	return &out
}

// Mask returns the token of masked positions.
func (t *Text) Mask() int32 { return t.spec.Mask }

// Encoder turns a text into tokens.
type Encoder func(text string) ([]int32, error)

// Encoder returns the encoder that takes spellings of special tokens as text or, if special, as
// these tokens.
func (t *Text) Encoder(special bool) Encoder {
	if special {
		return t.EncodeSpecial
	}
	return t.Encode
}

// SpecialSpellings returns the special tokens whose spellings a text has, each once. A client that
// meant text should hear that it may have written tokens.
func (t *Text) SpecialSpellings(text string) []string {
	var spellings []string
	ids, _ := t.EncodeSpecial(text) // text that cannot be encoded is refused elsewhere
	for _, id := range ids {
		spelling, isToken := t.Token(id)
		if id == t.spec.Mask && !strings.Contains(text, spelling) {
			spelling, isToken = tokenizers.WithoutMask(t.Tokenizer).Token(id)
		}
		if isToken && tokenizers.IsSpecial(t.Tokenizer, id) && strings.Contains(text, spelling) &&
			!slices.Contains(spellings, spelling) {
			spellings = append(spellings, spelling)
		}
	}
	return spellings
}

// holePattern matches a number of tokens in brackets, "[20]", or a hole of unknown length, "[?]".
var holePattern = regexp.MustCompile(`\[([0-9]+|\?)\]`)

// HasHole reports whether a text has a hole such as [20] or [?].
func HasHole(text string) bool { return holePattern.MatchString(text) }

// unknownLength stands in a hole for the number that the model finds itself.
const unknownLength = "?"

// UnknownHole is a hole whose length the model finds, as it is written in a text.
const UnknownHole = "[" + unknownLength + "]"

// GrowingHole is the number of masks with which a hole of unknown length begins
// (Dream-org/DreamOn-v0-7B, README).
const GrowingHole = 4

// Infill returns the tokens [length] of a run that fills the holes of text, each written as a
// number of tokens in brackets: "Once upon a time there[3] girl named Lily.". A hole [?] has the
// length that the model finds, if model.Spec.Growth says that it can. Positions after the text are
// masked too; a length of 0 means that of the text. A text without a hole, or with more positions
// than the model has, is a *param.Error.
func (t *Text) Infill(text string, length int) ([]int32, error) {
	return t.InfillWith(t.Encode, text, length)
}

// InfillWith is Infill with another encoder of the text between the holes.
func (t *Text) InfillWith(encode Encoder, text string, length int) ([]int32, error) {
	tokens := slices.Clone(t.first)
	pieceStart := 0
	lastHole := ""
	appendText := func(piece string) error {
		if piece == "" {
			return nil
		}
		ids, err := encode(piece)
		tokens = append(tokens, ids...)
		if err != nil && lastHole != "" {
			return fmt.Errorf("after %s: %w", lastHole, err)
		}
		return err
	}

	for _, match := range holePattern.FindAllStringSubmatchIndex(text, -1) {
		if err := appendText(text[pieceStart:match[0]]); err != nil {
			return nil, err
		}
		pieceStart = match[1]
		lastHole = text[match[0]:match[1]]
		masks, err := t.holeLength(text[match[2]:match[3]])
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, slices.Repeat([]int32{t.spec.Mask}, masks)...)
		// The length is checked after each hole: a text of thousands of large holes must not become
		// gigabytes of tokens before it is refused.
		if len(tokens) > t.MaxLength() {
			_, err := t.FillCount(Room{Field: "infill", Taken: len(tokens)})
			return nil, err
		}
	}
	if pieceStart == 0 {
		return nil, param.Refuse("infill", param.NoHole,
			"no hole, want one such as [20], which is 20 tokens")
	}
	if err := appendText(text[pieceStart:]); err != nil {
		return nil, err
	}
	tokens = append(tokens, t.last...)
	tail := t.spec.TailBehind(tokens)
	takenCount := len(tokens) + len(tail)

	if length == 0 && takenCount <= t.spec.Length() {
		length = takenCount
	}
	masks, err := t.FillCount(Room{Field: "infill", Taken: takenCount, Length: length})
	if err != nil {
		return nil, err
	}
	return t.Surround(tokens, masks, tail), nil
}

// holeLength returns the number of masks of a hole, from what stands between its brackets.
func (t *Text) holeLength(number string) (int, error) {
	if number == unknownLength {
		if t.spec.Growth == nil {
			return 0, param.Refuse("infill", param.Unsupported,
				"hole is [?], want a number of tokens: this model cannot change a hole's length")
		}
		return GrowingHole, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > t.MaxLength() {
		return 0, param.Refuse("infill", param.OutOfRange, "hole is [%s], want 1 to %d tokens", number,
			t.MaxLength())
	}
	return n, nil
}

// Begin returns the tokens of a prompt and those that belong before it. continues says that the
// positions to fill follow the prompt; otherwise something else comes after them. The error is that
// of the tokenizer: text with what the vocabulary lacks.
func (t *Text) Begin(prompt string, special, continues bool) ([]int32, error) {
	tokens, err := t.Encoder(special)(prompt)
	if continues {
		tokens = slices.Concat(t.continued, tokens)
	}
	return slices.Concat(t.first, tokens), err
}

// Last returns the tokens that the tokenizer's files put after every text.
func (t *Text) Last() []int32 { return t.last }

// MaxLength returns the most tokens of a text, without those that the model has around every text.
func (t *Text) MaxLength() int { return t.spec.Length() - t.spec.SpecialCount() }

// Surround returns the tokens of a text with masks between the known tokens and those after them,
// and around all of it the tokens that the model has around every text, which do not count in its
// length.
func (t *Text) Surround(prefix []int32, masks int, suffix []int32) []int32 {
	filled := slices.Repeat([]int32{t.spec.Mask}, masks)
	return slices.Concat(t.spec.BeforeText, prefix, filled, suffix, t.spec.AfterText)
}

// WithoutSurroundings returns a sequence without the tokens that the model has around every text: a
// chat template writes its own.
func (t *Text) WithoutSurroundings(tokens []int32) []int32 {
	return tokens[len(t.spec.BeforeText) : len(tokens)-len(t.spec.AfterText)]
}

// Tokens returns the tokens of a text with those that the tokenizer's files put around it, as a
// sequence begins with it.
func (t *Text) Tokens(text string) ([]int32, error) {
	prefix, err := t.Begin(text, false, true)
	return t.Surround(append(prefix, t.last...), 0, nil), err
}

// Room is the space of a sequence that is shared between known tokens and positions to fill.
type Room struct {
	// Field names the part of a request that gives the known tokens. A refusal of too many of them
	// is about it.
	Field string

	// Taken counts the known tokens.
	Taken int

	// Length is the wanted length of the whole text in tokens; 0: none is wanted.
	Length int

	// Fill is the wanted number of positions to fill; 0: none is wanted.
	Fill int

	// FillField names the part of a request that gives Fill, if it must be kept exactly; "" for
	// max-tokens, of which no more counts than there is room for.
	FillField string

	// Usual is the number of positions to fill where neither Length nor Fill says it; 0: all that
	// are left.
	Usual int
}

// FillCount returns the number of positions to fill beside the known tokens: Fill if it is set,
// otherwise the rest of Length, otherwise Usual, but never more than are left. A *param.Error says
// which field asks for more than there is.
func (t *Text) FillCount(r Room) (int, error) {
	longest := t.MaxLength()
	if r.Length < 0 || r.Length > longest {
		return 0, param.Refuse("length", param.OutOfRange,
			"length is %d, want 1 to %d, or 0 for %d", r.Length, longest, longest)
	}
	if r.Length > 0 {
		longest = r.Length
	}
	left := longest - r.Taken
	// A text that somebody wants continued needs a position to fill; one that is whole does not.
	fewest := min(r.Usual+r.Fill, 1)
	if left < fewest {
		return 0, &param.Error{Name: r.Field, Found: fmt.Sprintf("%d tokens", r.Taken),
			Want: fmt.Sprintf("at most %d", longest-fewest), Reason: param.TooLong}
	}

	if r.Fill == 0 {
		if r.Length > 0 || r.Usual == 0 || r.Usual > left || t.spec.Fixed {
			return left, nil
		}
		return r.Usual, nil
	}

	refusal := &param.Error{Name: cmp.Or(r.FillField, "max-tokens"), Found: fmt.Sprint(r.Fill)}
	switch {
	case r.Length > 0:
		refusal.Want = "none beside a length"
		refusal.Reason = param.NoEffect
	case r.Fill < 0 || r.Fill > left && r.FillField != "":
		refusal.Want = fmt.Sprintf("1 to %d", left)
	case r.Fill < left && t.spec.Fixed:
		refusal.Want = fmt.Sprintf("%d: this model has no other length", left)
		refusal.Reason = param.Unsupported
	default:
		return min(r.Fill, left), nil
	}
	return 0, refusal
}

// endOfText returns the token that ends a text, by the tokenizer's files or the model's.
func (t *Text) endOfText() (id int32, ok bool) {
	id, ok = tokenizers.Role(t.Tokenizer, "eos_token")
	if ok && int(id) < t.spec.Outcomes { // a network may have fewer tokens than its tokenizer
		return id, true
	}
	if len(t.spec.EndTokens) > 0 {
		return t.spec.EndTokens[0], true
	}
	return 0, false
}

// End returns the token that ends a text. text is an id such as 198, the spelling of a special
// token, or a text of one token; "" means that of the model's files. Another number of tokens is a
// *param.Error, as it is where the files name none.
func (t *Text) End(text string) (int32, error) {
	if text == "" {
		id, ok := t.endOfText()
		if !ok {
			return 0, param.Refuse("end", param.NoSuchToken,
				"end: the model's files name no token that ends a text, want one")
		}
		return id, nil
	}
	ids, err := ParseTokens(t, t.spec, text)
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("%q is %d tokens, want one", text, len(ids))
	}
	if err != nil {
		return 0, param.WithName("end", err)
	}
	return ids[0], nil
}

// After returns the tokens of a text that follows a prompt whose tokens are known. The two are
// tokenized together, as they would be in one text, unless that changes the prompt's own tokens.
// The error is that of the tokenizer.
func (t *Text) After(prefix []int32, prompt string, special bool, text string) ([]int32, error) {
	ids, err := t.Encode(text)
	if err != nil || prompt == "" {
		return ids, err
	}
	together, err := t.Begin(prompt+text, special, true)
	if err == nil && len(together) > len(prefix) && slices.Equal(together[:len(prefix)], prefix) {
		ids = together[len(prefix):]
	}
	return ids, err
}

// DifferInOneToken reports whether texts have equally many tokens and differ in at most one
// position. One pass is then all that choosing among them can use.
func (t *Text) DifferInOneToken(texts []string) bool {
	var first []int32
	differing := -1
	for i, text := range texts {
		ids, err := t.Encode(text)
		if err != nil {
			return false
		}
		if i == 0 {
			first = ids
		}
		if len(ids) != len(first) {
			return false
		}
		for position := range ids {
			if ids[position] == first[position] {
				continue
			}
			if differing >= 0 && differing != position {
				return false
			}
			differing = position
		}
	}
	return len(texts) > 0
}
