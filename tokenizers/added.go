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

// finder finds added tokens: the leftmost, and of these the longest. The zero value finds none.
type finder struct {
	list   []added
	nodes  []node    // a trie of their bytes; the first is its root
	firsts [256]bool // their first bytes
}

type node struct {
	next  map[byte]int32
	token int32 // index in list plus one, 0 for none
}

func newFinder(list []added, spelling func(added) string) *finder {
	f := &finder{list: list, nodes: []node{{}}}
	if len(list) == 0 {
		return nil
	}
	for i, a := range list {
		at := int32(0)
		for j, b := range []byte(spelling(a)) {
			f.firsts[b] = f.firsts[b] || j == 0
			n := &f.nodes[at]
			if n.next == nil {
				n.next = map[byte]int32{}
			}
			to, ok := n.next[b]
			if !ok {
				to = int32(len(f.nodes))
				n.next[b] = to
				f.nodes = append(f.nodes, node{})
			}
			at = to
		}
		if f.nodes[at].token == 0 { // among spellings that normalise to the same, the first counts
			f.nodes[at].token = int32(i) + 1
		}
	}
	return f
}

// longest returns the token at the start of text and its length in bytes.
func (f *finder) longest(text string) (*added, int) {
	var found *added
	size, at := 0, int32(0)
	for i := 0; i < len(text); i++ {
		to, ok := f.nodes[at].next[text[i]]
		if !ok {
			break
		}
		at = to
		if t := f.nodes[at].token; t > 0 {
			found, size = &f.list[t-1], i+1
		}
	}
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
