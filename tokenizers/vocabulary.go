package tokenizers

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxText is the most bytes of text that one call encodes. One word of that length takes
// about 1 GB while it is merged.
const MaxText = 1 << 25

// added is a token outside the merges, found in text by its spelling.
type added struct {
	text    string
	id      int32
	special bool // found by EncodeSpecial only
}

// vocabulary is the Tokenizer of this package: the bytes of every id, the tokens that are
// matched before the merges, and encode for the text between them.
type vocabulary struct {
	tokens []string // bytes by id
	added  map[string]added
	plain  *regexp.Regexp // finds the added tokens that are not special; nil if none
	all    *regexp.Regexp // finds every added token; nil if none
	encode func(text string) ([]int32, error)
}

func newVocabulary(tokens []string, list []added, encode func(string) ([]int32, error)) (*vocabulary, error) {
	v := &vocabulary{tokens: tokens, added: make(map[string]added, len(list)), encode: encode}
	var plain, all []string
	for _, a := range list {
		v.added[a.text] = a
		all = append(all, a.text)
		if !a.special {
			plain = append(plain, a.text)
		}
	}
	var err error
	if v.plain, err = finder(plain); err != nil {
		return nil, err
	}
	v.all, err = finder(all)
	return v, err
}

// finder matches any of texts, leftmost and then longest, in time linear in the text.
func finder(texts []string) (*regexp.Regexp, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	texts = slices.Clone(texts)
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for i, t := range texts {
		texts[i] = regexp.QuoteMeta(t)
	}
	re, err := regexp.Compile(strings.Join(texts, "|"))
	if err != nil { // never the error itself, which repeats all of texts
		return nil, fmt.Errorf("%d added tokens are too many to find together", len(texts))
	}
	return re, nil
}

func (v *vocabulary) Encode(text string) ([]int32, error)        { return v.encodeAround(v.plain, text) }
func (v *vocabulary) EncodeSpecial(text string) ([]int32, error) { return v.encodeAround(v.all, text) }

// encodeAround encodes the text between the matches of find; the matches are added tokens.
func (v *vocabulary) encodeAround(find *regexp.Regexp, text string) ([]int32, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	if find == nil {
		return v.encode(text)
	}
	var ids []int32
	for {
		m := find.FindStringIndex(text)
		if m == nil {
			part, err := v.encode(text)
			return append(ids, part...), err
		}
		part, err := v.encode(text[:m[0]])
		if err != nil {
			return nil, err
		}
		ids = append(append(ids, part...), v.added[text[m[0]:m[1]]].id)
		text = text[m[1]:]
	}
}

func (v *vocabulary) Token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(v.tokens) {
		return "", false
	}
	return v.tokens[id], true
}

func (v *vocabulary) Special(spelling string) (int32, bool) {
	a, ok := v.added[spelling]
	return a.id, ok && a.special
}

func (v *vocabulary) Decode(ids []int32) string   { return strings.Join(v.Pieces(ids), "") }
func (v *vocabulary) Pieces(ids []int32) []string { return pieces(v, ids) }
func (v *vocabulary) VocabSize() int              { return len(v.tokens) }

// checkText says whether text may be encoded.
func checkText(text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("text: %d bytes, at most %d allowed", len(text), MaxText)
	}
	if at := invalidUTF8(text); at >= 0 {
		return fmt.Errorf("text: byte %d is 0x%02x, want UTF-8", at, text[at])
	}
	return nil
}

// invalidUTF8 is the offset of the first byte of s that is not UTF-8, or -1.
func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
