package tokenizers

import (
	"fmt"
	"strings"

	"unmask/internal/jsonline"
)

// MaxText is the longest text in bytes that one call encodes. Merging one word of that length takes
// about 1 GB.
const MaxText = 1 << 25

// vocabulary is the Tokenizer of this package: the stages of Hugging Face's library in order.
type vocabulary struct {
	raw        *finder    // added tokens found in the original text
	normalize  normalizer // nil for none
	forgets    bool       // it drops first characters as if the text began after them: Precompiled
	normalized *finder    // added tokens found in normalised text
	cut        preTokenizer
	model      subwords
	falls      bool // tokens <0x00> to <0xFF> are bytes
	apart      bool // special tokens may be among normalized, so parts are normalised separately
	decode     decoder

	tokens []string // by id: bytes if the decoder is ByteLevel (bytes), otherwise spellings
	bytes  bool
	about  facts
	listed []added
	added  map[string]added
	marked map[int32]bool // ids of special tokens
}

// setTokens stores the spelling of every id. An added token that is found in normalised text is
// shown with its normalised spelling.
func (v *vocabulary) setTokens(spelled []string, extra []added) {
	v.tokens = spelled
	for _, a := range extra {
		v.tokens[a.id] = v.spelling(a)
	}
	if v.bytes {
		for id, text := range spelled {
			v.tokens[id], _ = unspell(text)
		}
	}
}

// spelling returns the text by which a is found.
func (v *vocabulary) spelling(a added) string {
	if a.normalized && v.normalize != nil {
		return v.normalize(a.text)
	}
	return a.text
}

// setAdded stores the added tokens. The spelling of one that is found in normalised text is
// normalised.
func (v *vocabulary) setAdded(list []added) error {
	v.listed, v.added = list, make(map[string]added, len(list))
	v.marked = map[int32]bool{}
	var raw, special, others []added
	for i, a := range list {
		v.added[a.text] = a
		if a.special {
			v.marked[a.id] = true
		}
		switch {
		case v.spelling(a) == "":
			return fmt.Errorf("added_tokens[%d] %.40q: nothing is left of it once normalised", i,
				a.text)
		case a.normalized && a.special:
			special = append(special, a)
			v.apart = v.apart || v.normalize != nil
		case a.normalized:
			others = append(others, a)
		default:
			raw = append(raw, a)
		}
	}
	// The library looks for special tokens before others with the same normalised spelling.
	v.raw, v.normalized = newFinder(raw, v.spelling), newFinder(append(special, others...), v.spelling)
	return nil
}

func (v *vocabulary) Encode(text string) ([]int32, error) { return v.encode(text, nil) }

func (v *vocabulary) EncodeSpecial(text string) ([]int32, error) {
	return v.encode(text, []stretch{{0, len(text)}})
}

func (v *vocabulary) encodeParts(parts []Part) ([]int32, error) {
	var all strings.Builder
	var special []stretch
	for _, p := range parts {
		start := all.Len()
		all.WriteString(p.Text)
		if n := len(special); p.Special && n > 0 && special[n-1].end == start {
			special[n-1].end = all.Len()
		} else if p.Special {
			special = append(special, stretch{start, all.Len()})
		}
	}
	return v.encode(all.String(), special)
}

// encode finds added tokens, special ones only within the stretches, and merges the words between
// them.
func (v *vocabulary) encode(text string, special []stretch) ([]int32, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	e := &encoding{v: v, text: text, special: special}
	if err := v.raw.cut(text, e.allows, e.parts, e.token); err != nil {
		return nil, err
	}
	return e.ids, nil
}

// encoding is one call of encode.
type encoding struct {
	v       *vocabulary
	text    string
	special []stretch // where special tokens may be
	ids     []int32   // so far
	memory  scratch
}

// allows reports whether text[start:end] may be a special token.
func (e *encoding) allows(start, end int) bool { return allows(e.special, start, end) }

func (e *encoding) token(id int32) { e.ids = append(e.ids, id) }

// parts encodes text[start:end], which has no added tokens in their raw spelling. Where the
// vocabulary needs it, the parts inside and outside of special stretches are normalised apart.
func (e *encoding) parts(start, end int) error {
	if !e.v.apart {
		return e.part(start, end)
	}
	for _, s := range e.special {
		for _, edge := range [...]int{s.start, s.end} {
			if edge > start && edge < end {
				if err := e.part(start, edge); err != nil {
					return err
				}
				start = edge
			}
		}
	}
	return e.part(start, end)
}

// part normalises text[start:end], finds added tokens in their normalised spelling, and merges the
// words between them.
func (e *encoding) part(start, end int) error {
	text, inner := e.text[start:end], func(at, to int) bool { return e.allows(start+at, start+to) }
	begins := start == 0 // a normalizer that drops the first character takes the beginning with it
	if e.v.normalize != nil {
		_, size := decode(text)
		begins = begins && (e.v.normalize(text[:size]) != "" ||
			e.v.forgets && e.v.normalize("\x00"+text[:size]+"\x00") == "\x00\x00") // anywhere
		// Positions change by normalisation: a token is special if all of its text is in a stretch.
		whole := e.allows(start, end)
		inner = func(int, int) bool { return whole }
		if text = e.v.normalize(text); len(text) > 2*MaxText {
			return fmt.Errorf("text is %d bytes once normalised, want at most %d", len(text), 2*MaxText)
		}
	}
	return e.v.normalized.cut(text, inner, func(at, to int) error {
		return e.v.cut.words(piece{text[at:to], begins && at == 0}, e.word)
	}, e.token)
}

// word appends the tokens of a word.
func (e *encoding) word(one piece) (err error) {
	if one.text == "" {
		return nil
	}
	if e.ids, err = e.v.model.append(e.ids, one.text, &e.memory); err != nil {
		err = fmt.Errorf("text: %w", err)
	}
	return err
}

func (v *vocabulary) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(v.tokens) {
		return "", false
	}
	text := v.tokens[id]
	if v.bytes {
		return text, true
	}
	if b, ok := fallbackByte(text); ok && v.falls {
		return string([]byte{b}), true
	}
	out := "" // some decoders remove a space from the first token of a text
	for _, t := range v.decode([]spelled{{{text: "", fixed: true}}, {{text: text, owner: 1}}}) {
		for _, part := range t {
			if part.owner == 1 {
				out += part.text
			}
		}
	}
	return out, true
}

func (v *vocabulary) Special(spelling string) (int32, bool) {
	a, ok := v.added[spelling]
	return a.id, ok && a.special
}

func (v *vocabulary) Decode(ids []int32) string   { return strings.Join(v.Pieces(ids), "") }
func (v *vocabulary) Pieces(ids []int32) []string { return v.pieces(ids, nil) }
func (v *vocabulary) VocabSize() int              { return len(v.tokens) }

// pieces decodes ids; those in shown are replaced by its text.
func (v *vocabulary) pieces(ids []int32, shown map[int32]string) []string {
	all := make(spelled, len(ids))
	for i, id := range ids {
		all[i] = share{text: replacement, owner: i, fixed: true}
		if text, ok := shown[id]; ok {
			all[i].text, all[i].hidden = text, text == ""
		} else if id >= 0 && int(id) < len(v.tokens) {
			all[i].text, all[i].fixed = v.tokens[id], false
		}
	}
	out := make([]string, len(ids))
	if v.bytes {
		for _, part := range wholeRunes(all) {
			out[part.owner] = part.text
		}
		return out
	}
	tokens := make([]spelled, len(all))
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
