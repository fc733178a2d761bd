package tokenizers

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token outside the merges, found in text by its own text.
type addedToken struct {
	text string
	id   int32

	// special: it is found by EncodeSpecial only.
	special bool

	// singleWord: it is found only where it does not touch a word character.
	singleWord bool

	// The white space before or after the token belongs to it.
	takesSpaceBefore, takesSpaceAfter bool

	// normalized: it is found in normalised text, by its normalised text.
	normalized bool
}

// finder finds added tokens: the leftmost, and of these the longest. A nil one finds none.
type finder struct {
	texts *trie

	// tokens are those of the trie's texts. Of tokens with one text it is the first.
	tokens []addedToken
}

// newFinder returns a finder of tokens by the text that textToFind returns for each, nil for no
// tokens.
func newFinder(list []addedToken, textToFind func(addedToken) string) *finder {
	if len(list) == 0 {
		return nil
	}
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = textToFind(a)
	}
	f := &finder{texts: newTrie(texts)}
	f.tokens = make([]addedToken, len(f.texts.texts))
	for i, a := range slices.Backward(list) {
		f.tokens[f.texts.index(texts[i])] = a
	}
	return f
}

// longestAt returns the longest token at the start of text, nil for none, and its length in bytes.
func (f *finder) longestAt(text string) (found *addedToken, size int) {
	i := f.texts.longestPrefix(text)
	if i < 0 {
		return nil, 0
	}
	return &f.tokens[i], len(f.texts.texts[i])
}

// split calls between for each range of text between tokens and token for each token, in order.
// allowsSpecial reports whether special tokens are allowed in a range.
//
// As in Hugging Face's library (AddedVocabulary.find_matches), a token that is not allowed where it
// was found still hides others inside it.
func (f *finder) split(text string, allowsSpecial func(start, end int) bool,
	between func(start, end int) error, token func(id int32)) error {
	lastEnd := 0  // the end of the last token
	spaceEnd := 0 // of the white space that was scanned last, which is not scanned again
	for pos := 0; f != nil && pos < len(text); {
		if f.texts.roots[text[pos]] == 0 {
			pos++
			continue
		}
		a, size := f.longestAt(text[pos:])
		if a == nil {
			pos++
			continue
		}
		start := pos
		end := pos + size
		pos = end
		if a.special && !allowsSpecial(start, end) {
			continue
		}
		if a.singleWord && touchesWord(text[:start], text[end:]) {
			continue
		}
		if a.takesSpaceBefore {
			start = max(lastEnd, start)
			start = lastEnd + len(strings.TrimRightFunc(text[lastEnd:start], unicode.IsSpace))
			if start >= end { // the token before has taken this one's white space
				continue
			}
		}
		if a.takesSpaceAfter {
			if spaceEnd < end {
				spaceEnd = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			end = spaceEnd
		}
		if lastEnd < start {
			if err := between(lastEnd, start); err != nil {
				return err
			}
		}
		token(a.id)
		lastEnd = end
	}
	if lastEnd < len(text) {
		return between(lastEnd, len(text))
	}
	return nil
}

// touchesWord reports whether a word character is directly before or after a token.
func touchesWord(textBefore, textAfter string) bool {
	last, lastSize := utf8.DecodeLastRuneInString(textBefore)
	first, firstSize := utf8.DecodeRuneInString(textAfter)
	return lastSize > 0 && isWordRune(last) || firstSize > 0 && isWordRune(first)
}
