package tokenizers

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// added is a token outside the merges, found in text by its spelling.
type added struct {
	text           string
	id             int32
	special        bool // found by EncodeSpecial only
	single         bool // only if it does not touch a word character
	lstrip, rstrip bool // also takes the white space before, after it
	normalized     bool // found in normalised text; its spelling is normalised too
}

// finder finds added tokens: the leftmost, and of these the longest. A nil one finds none.
type finder struct {
	list   []added
	sorted spellings // their numbers in the list
	firsts [256]bool // their first bytes
}

func newFinder(list []added, text func(added) string) *finder {
	if len(list) == 0 {
		return nil
	}
	f := &finder{list: list}
	for i, a := range list {
		one := spelling{text: text(a), id: int32(i)}
		f.sorted = append(f.sorted, one)
		f.firsts[one.text[0]] = true
	}
	f.sorted = f.sorted.sort()
	return f
}

// longest returns the token at the start of text and its length in bytes.
func (f *finder) longest(text string) (found *added, size int) {
	f.sorted.prefixes(text, func(p spelling) { found, size = &f.list[p.id], len(p.text) })
	return found, size
}

// cut calls between for each range of text between tokens and token for each token, in order, as
// Hugging Face's library does (AddedVocabulary.find_matches): a token that is not allowed where it
// was found still hides others inside it. special reports whether special tokens are allowed in a
// range.
func (f *finder) cut(text string, special func(start, end int) bool,
	between func(start, end int) error, token func(id int32)) error {
	done, spaces := 0, 0 // spaces: the end of the white space that was scanned last
	for at := 0; f != nil && at < len(text); {
		if !f.firsts[text[at]] {
			at++
			continue
		}
		a, size := f.longest(text[at:])
		if a == nil {
			at++
			continue
		}
		start, end := at, at+size
		at = end
		if a.special && !special(start, end) || a.single && touched(text[:start], text[end:]) {
			continue
		}
		if a.lstrip {
			start = max(done, start)
			start = done + len(strings.TrimRightFunc(text[done:start], unicode.IsSpace))
			if start >= end { // the token before has taken this one's white space
				continue
			}
		}
		if a.rstrip {
			if spaces < end {
				spaces = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			end = spaces
		}
		if done < start {
			if err := between(done, start); err != nil {
				return err
			}
		}
		token(a.id)
		done = end
	}
	if done < len(text) {
		return between(done, len(text))
	}
	return nil
}

// touched reports whether a word character is directly before or after a token.
func touched(before, after string) bool {
	last, size := utf8.DecodeLastRuneInString(before)
	first, n := utf8.DecodeRuneInString(after)
	return size > 0 && isWord(last) || n > 0 && isWord(first)
}
