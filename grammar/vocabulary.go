package grammar

import (
	"cmp"
	"slices"
	"strings"
)

// Vocabulary is the trie of a tokenizer's tokens. It does not change, and may be shared.
type Vocabulary struct {
	Size  int
	nodes []node  // in the order of a walk
	ids   []int32 // tokens, in the order of their nodes
}

// node is a node of the trie, but not the root. Tokens are ranges of Vocabulary.ids: from first to
// last those that end at the node, and from there to end those below it.
type node struct {
	next        int32 // the node after those below this one
	first, last int32
	end         int32
	depth       uint16 // bytes before it
	c           byte
	plain       bool // all bytes below are plain
}

// isPlain reports whether a byte is a character of one byte that stands for itself in JSON's texts.
// Most bytes of most tokens are, and most states that read one of them read all.
func isPlain(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// maxToken bounds the bytes of a token; longer ones are never drawn under a grammar.
const maxToken = 1 << 12

// NewVocabulary returns the trie of tokens 0 to size-1. text returns a token's bytes; a token
// without any, or for which it returns false, is never drawn under a grammar.
func NewVocabulary(size int, text func(id int32) (string, bool)) *Vocabulary {
	type token struct {
		text string
		id   int32
	}
	var sorted []token
	for id := range int32(size) {
		if t, ok := text(id); ok && t != "" && len(t) <= maxToken {
			sorted = append(sorted, token{t, id})
		}
	}
	slices.SortFunc(sorted, func(a, b token) int {
		return cmp.Or(strings.Compare(a.text, b.text), cmp.Compare(a.id, b.id))
	})

	v := &Vocabulary{Size: size}
	// The tokens are sorted, so those below a node follow each other, and a node is complete once a
	// token comes that does not begin with it.
	var path []int32 // the nodes of the last token
	closeNodes := func(depth int) {
		for i := len(path) - 1; i >= depth; i-- {
			n := &v.nodes[path[i]]
			n.next = int32(len(v.nodes))
			n.end = int32(len(v.ids))
			if i > 0 && !(n.plain && isPlain(n.c)) {
				v.nodes[path[i-1]].plain = false
			}
		}
		path = path[:depth]
	}
	last := ""
	for _, t := range sorted {
		common := commonPrefix(last, t.text)
		closeNodes(common)
		for i := common; i < len(t.text); i++ {
			path = append(path, int32(len(v.nodes)))
			first := int32(len(v.ids))
			v.nodes = append(v.nodes, node{
				c:     t.text[i],
				depth: uint16(i),
				first: first,
				last:  first,
				plain: true,
			})
		}
		v.ids = append(v.ids, t.id)
		v.nodes[path[len(path)-1]].last++
		last = t.text
	}
	closeNodes(0)
	return v
}

// commonPrefix returns how many bytes two texts begin with in common.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
