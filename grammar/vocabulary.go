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

// node is a node of the trie, but not the root.
type node struct {
	next        int32 // the node after those below this one
	first, last int32 // of ids: the tokens that end here
	end         int32 // of ids: after the tokens that end here or below
	depth       uint16
	c           byte
	plain       bool // all bytes below are plain
}

// plain reports whether a byte is a character of one byte that stands for itself in JSON's texts.
func plain(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// maxToken bounds the bytes of a token; longer ones are never drawn under a grammar.
const maxToken = 1 << 12

// NewVocabulary returns the trie of tokens 0 to size-1. text returns a token's bytes; a token
// without any, or for which it returns false, is never drawn under a grammar.
func NewVocabulary(size int, text func(id int32) (string, bool)) *Vocabulary {
	type token struct {
		text string
		id   int32
	}
	var all []token
	for id := range int32(size) {
		if t, ok := text(id); ok && t != "" && len(t) <= maxToken {
			all = append(all, token{t, id})
		}
	}
	slices.SortFunc(all, func(a, b token) int {
		return cmp.Or(strings.Compare(a.text, b.text), cmp.Compare(a.id, b.id))
	})
	v := &Vocabulary{Size: size}
	var path []int32 // nodes of the last token
	end := func(depth int) {
		for i := len(path) - 1; i >= depth; i-- {
			n := &v.nodes[path[i]]
			n.next, n.end = int32(len(v.nodes)), int32(len(v.ids))
			if i > 0 && !(n.plain && plain(n.c)) {
				v.nodes[path[i-1]].plain = false
			}
		}
		path = path[:depth]
	}
	last := ""
	for _, t := range all {
		same := 0
		for same < len(last) && same < len(t.text) && last[same] == t.text[same] {
			same++
		}
		end(same)
		for i := same; i < len(t.text); i++ {
			path = append(path, int32(len(v.nodes)))
			at := int32(len(v.ids))
			v.nodes = append(v.nodes, node{c: t.text[i], depth: uint16(i), first: at, last: at,
				plain: true})
		}
		v.ids = append(v.ids, t.id)
		v.nodes[path[len(path)-1]].last++
		last = t.text
	}
	end(0)
	return v
}
