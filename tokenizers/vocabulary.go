package tokenizers

import (
	"fmt"
	"strings"

	"unmask/internal/jsonline"
)

// MaxText is the longest text in bytes that one call encodes. Merging one word of that length takes
// about 1 GB.
const MaxText = 1 << 25

// maxAddedText is the longest text in bytes by which an added token is found. It bounds the time of
// a character.
const maxAddedText = 512

// vocabulary is the Tokenizer of this package: the stages of Hugging Face's library in order.
type vocabulary struct {
	// rawFinder finds added tokens in the original text, and normalizedFinder in normalised text.
	rawFinder        *finder
	normalizedFinder *finder

	// normalize is nil for none. mayDropStart: it can drop first characters as if the text began
	// after them, as Precompiled does.
	normalize    normalizer
	mayDropStart bool

	// lowercases: one of the stages of normalize is Lowercase.
	lowercases bool

	// normalizesApart: special tokens may be among those in normalised text, so that parts inside and
	// outside of special ranges are normalised by themselves.
	normalizesApart bool

	// stop returns an error where an encoding is to end before its text does; nil for never.
	stop func() error

	preTokenizer preTokenizer
	model        subwordModel
	decode       decoder

	// tokens are by id: bytes with byteLevel, as the decoder ByteLevel has them, and otherwise the
	// texts of the file. hasByteTokens: <0x00> to <0xFF> are bytes.
	tokens        []string
	byteLevel     bool
	hasByteTokens bool

	facts       fileFacts
	addedList   []addedToken
	addedByText map[string]addedToken
	specialIDs  map[int32]bool
}

// setTokens stores the text of every id. An added token that is found in normalised text is shown
// with its normalised text.
func (v *vocabulary) setTokens(texts []string, added []addedToken) {
	v.tokens = texts
	for _, a := range added {
		v.tokens[a.id] = v.textToFind(a)
	}
	if v.byteLevel {
		for id, text := range texts {
			v.tokens[id], _ = decodeAlphabet(text)
		}
	}
}

// textToFind returns the text by which a is found.
func (v *vocabulary) textToFind(a addedToken) string {
	if a.normalized && v.normalize != nil {
		return v.normalize(a.text)
	}
	return a.text
}

// setAdded stores the added tokens, in place of those that were there.
func (v *vocabulary) setAdded(list []addedToken) error {
	v.addedList = list
	v.addedByText = make(map[string]addedToken, len(list))
	v.specialIDs = map[int32]bool{}
	var raw, normalizedSpecial, normalizedOthers []addedToken
	for i, a := range list {
		v.addedByText[a.text] = a
		if a.special {
			v.specialIDs[a.id] = true
		}
		found := v.textToFind(a)
		switch {
		case found == "":
			return fmt.Errorf("added_tokens[%d] %.40q: nothing is left of it once normalised", i,
				a.text)
		case len(found) > maxAddedText:
			return fmt.Errorf("added_tokens[%d] %.40q: %d bytes once normalised, want at most %d", i,
				a.text, len(found), maxAddedText)
		case a.normalized && a.special:
			normalizedSpecial = append(normalizedSpecial, a)
			v.normalizesApart = v.normalizesApart || v.normalize != nil
		case a.normalized:
			normalizedOthers = append(normalizedOthers, a)
		default:
			raw = append(raw, a)
		}
	}
	v.rawFinder = newFinder(raw, v.textToFind)
	// The library looks for special tokens before others with the same normalised text.
	v.normalizedFinder = newFinder(append(normalizedSpecial, normalizedOthers...), v.textToFind)
	return nil
}

func (v *vocabulary) Encode(text string) ([]int32, error) { return v.encode(text, nil) }

func (v *vocabulary) EncodeSpecial(text string) ([]int32, error) {
	return v.encode(text, []byteRange{{0, len(text)}})
}

// encodeParts encodes the parts as one text, so that words go across their borders. Special tokens
// are found only where parts allow them.
func (v *vocabulary) encodeParts(parts []Part) ([]int32, error) {
	var all strings.Builder
	var special []byteRange
	for _, p := range parts {
		start := all.Len()
		all.WriteString(p.Text)
		if n := len(special); p.Special && n > 0 && special[n-1].end == start {
			special[n-1].end = all.Len()
		} else if p.Special {
			special = append(special, byteRange{start, all.Len()})
		}
	}
	return v.encode(all.String(), special)
}

// encode finds added tokens, special ones only within some ranges, and merges the words between
// them.
func (v *vocabulary) encode(text string, special []byteRange) ([]int32, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	e := &encoding{v: v, text: text, special: special, memory: scratch{stop: v.stop}}
	if err := v.rawFinder.split(text, e.allowsSpecial, e.encodeRange, e.addToken); err != nil {
		return nil, err
	}
	return e.ids, nil
}

// encoding is one call of encode.
type encoding struct {
	v       *vocabulary
	text    string
	special []byteRange // where special tokens may be
	ids     []int32     // so far
	memory  scratch
}

// allowsSpecial reports whether text[start:end] may be a special token.
func (e *encoding) allowsSpecial(start, end int) bool { return isWithin(e.special, start, end) }

func (e *encoding) addToken(id int32) { e.ids = append(e.ids, id) }

// encodeRange encodes text[start:end], which has no added tokens in their raw text. Where the
// vocabulary needs it, the parts inside and outside of special ranges are normalised by themselves.
func (e *encoding) encodeRange(start, end int) error {
	if !e.v.normalizesApart {
		return e.encodePart(start, end)
	}
	for _, s := range e.special {
		for _, border := range [...]int{s.start, s.end} {
			if border > start && border < end {
				if err := e.encodePart(start, border); err != nil {
					return err
				}
				start = border
			}
		}
	}
	return e.encodePart(start, end)
}

// encodePart normalises text[start:end], finds added tokens in their normalised text, and merges
// the words between them.
func (e *encoding) encodePart(start, end int) error {
	text := e.text[start:end]
	isFirst := start == 0
	allowsSpecial := func(from, to int) bool { return e.allowsSpecial(start+from, start+to) }
	if e.v.normalize != nil {
		isFirst = isFirst && e.v.keepsStart(text)
		// Positions change by normalisation: a token is special if all of its text is in a range.
		wholeIsSpecial := e.allowsSpecial(start, end)
		allowsSpecial = func(int, int) bool { return wholeIsSpecial }
		text = e.v.normalize(text)
		if len(text) > 2*MaxText {
			return fmt.Errorf("text is %d bytes once normalised, want at most %d", len(text), 2*MaxText)
		}
	}
	encodeBetween := func(from, to int) error {
		return e.v.preTokenizer.eachWord(piece{text[from:to], isFirst && from == 0}, e.encodeWord)
	}
	return e.v.normalizedFinder.split(text, allowsSpecial, encodeBetween, e.addToken)
}

// keepsStart reports whether the start of a normalised text is that of the text. A normalizer that
// drops the first character takes the beginning with it, unless it drops that character anywhere.
func (v *vocabulary) keepsStart(text string) bool {
	_, size := decodeRune(text)
	if v.normalize(text[:size]) != "" {
		return true
	}
	return v.mayDropStart && v.normalize("\x00"+text[:size]+"\x00") == "\x00\x00"
}

// encodeWord appends the tokens of a word.
func (e *encoding) encodeWord(word piece) error {
	if word.text == "" {
		return nil
	}
	if err := e.memory.spend(len(word.text)); err != nil {
		return err
	}
	ids, err := e.v.model.appendIDs(e.ids, word.text, &e.memory)
	e.ids = ids
	if err != nil {
		return fmt.Errorf("text: %w", err)
	}
	return nil
}

// Token returns the bytes of one id. Without the byte alphabet that is what the decoder makes of it
// after another token, because some decoders remove a space from the first token of a text.
func (v *vocabulary) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(v.tokens) {
		return "", false
	}
	text := v.tokens[id]
	if v.byteLevel {
		return text, true
	}
	if b, ok := parseByteToken(text); ok && v.hasByteTokens {
		return string([]byte{b}), true
	}
	first := decoderToken{{text: "", fixed: true}}
	second := decoderToken{{text: text, owner: 1}}
	out := ""
	for _, t := range v.decode([]decoderToken{first, second}) {
		for _, part := range t {
			if part.owner == 1 {
				out += part.text
			}
		}
	}
	return out, true
}

func (v *vocabulary) Special(text string) (int32, bool) {
	a, ok := v.addedByText[text]
	return a.id, ok && a.special
}

func (v *vocabulary) Decode(ids []int32) string   { return strings.Join(v.Pieces(ids), "") }
func (v *vocabulary) Pieces(ids []int32) []string { return v.decodePieces(ids, nil) }
func (v *vocabulary) VocabSize() int              { return len(v.tokens) }

// decodePieces decodes ids; those in shown are replaced by its text.
func (v *vocabulary) decodePieces(ids []int32, shown map[int32]string) []string {
	all := make(decoderToken, len(ids))
	for i, id := range ids {
		text, isShown := shown[id]
		switch {
		case isShown:
			all[i] = fragment{text: text, owner: i, fixed: true, hidden: text == ""}
		case id >= 0 && int(id) < len(v.tokens):
			all[i] = fragment{text: v.tokens[id], owner: i}
		default:
			all[i] = fragment{text: replacement, owner: i, fixed: true}
		}
	}
	out := make([]string, len(ids))
	if v.byteLevel {
		for _, part := range assignRunes(all) {
			out[part.owner] = part.text
		}
		return out
	}
	tokens := make([]decoderToken, len(all))
	for i := range all {
		tokens[i] = all[i : i+1 : i+1]
	}
	for _, t := range v.decode(tokens) {
		for _, part := range t {
			out[part.owner] += part.text
		}
	}
	return out
}

// checkText returns an error for text that cannot be encoded.
func checkText(text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("text is %d bytes, want at most %d", len(text), MaxText)
	}
	if err := jsonline.CheckUTF8(text); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	return nil
}
