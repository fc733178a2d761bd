package tokenizers

import (
	"slices"
	"strings"
)

// trie holds texts for finding those that a text has at each place. A node is a beginning of some
// of them; the root, the empty one, is node 0.
type trie struct {
	texts []string // sorted, without equal ones
	nodes []trieNode

	// roots are the nodes of one byte, 0 for none.
	roots [256]int32
}

// trieNode is one beginning.
type trieNode struct {
	// The longer beginnings by one byte stand together, in the order of that byte.
	firstChild int32
	children   uint16

	// letter is the node's last byte.
	letter byte

	// text is the index of the text that is this beginning, -1 for none.
	text int32

	// suffix is the longest end of this beginning that is a beginning too, and withText the longest
	// of those ends that is a text; 0 for none.
	suffix   int32
	withText int32
}

// newTrie returns a trie of texts that are not empty, of which equal ones are one. It takes 20
// bytes for each of theirs at most.
func newTrie(texts []string) *trie {
	t := &trie{texts: slices.Compact(slices.Sorted(slices.Values(texts)))}
	t.addNodes()
	t.linkSuffixes()
	return t
}

// addNodes makes the nodes, the shortest beginnings first.
func (t *trie) addNodes() {
	// The texts that begin with a node stand together, because texts are sorted.
	type textRange struct{ first, end int32 }
	count := t.countNodes()
	t.nodes = append(make([]trieNode, 0, count), trieNode{text: -1})
	ranges := append(make([]textRange, 0, count), textRange{0, int32(len(t.texts))})
	size := 0 // of the beginnings in bytes
	levelEnd := 1
	for n := 0; n < len(t.nodes); n++ {
		if n == levelEnd {
			size++
			levelEnd = len(t.nodes)
		}
		r := ranges[n]
		if r.first < r.end && len(t.texts[r.first]) == size { // the shortest is sorted first
			t.nodes[n].text = r.first
			r.first++
		}
		t.nodes[n].firstChild = int32(len(t.nodes))
		for r.first < r.end {
			letter := t.texts[r.first][size]
			end := r.first + 1
			for end < r.end && t.texts[end][size] == letter {
				end++
			}
			t.nodes = append(t.nodes, trieNode{letter: letter, text: -1})
			t.nodes[n].children++
			ranges = append(ranges, textRange{r.first, end})
			r.first = end
		}
	}
	for i := range int32(t.nodes[0].children) {
		child := t.nodes[0].firstChild + i
		t.roots[t.nodes[child].letter] = child
	}
}

// countNodes returns the number of beginnings.
func (t *trie) countNodes() int {
	count := 1
	previous := ""
	for _, text := range t.texts {
		shared := 0
		for shared < len(previous) && text[shared] == previous[shared] {
			shared++
		}
		count += len(text) - shared
		previous = text
	}
	return count
}

// linkSuffixes finds each node's suffixes by those of the beginning before it (Aho and Corasick
// 1975, "Efficient string matching").
func (t *trie) linkSuffixes() {
	for n := range t.nodes {
		first := t.nodes[n].firstChild
		for child := first; child < first+int32(t.nodes[n].children); child++ {
			c := &t.nodes[child]
			if n > 0 {
				c.suffix = t.step(t.nodes[n].suffix, c.letter)
			}
			c.withText = t.nodes[c.suffix].withText
			if t.nodes[c.suffix].text >= 0 {
				c.withText = c.suffix
			}
		}
	}
}

// child returns the node that is longer by a letter, 0 for none.
func (t *trie) child(n int32, letter byte) int32 {
	if n == 0 {
		return t.roots[letter]
	}
	first := t.nodes[n].firstChild
	children := t.nodes[first : first+int32(t.nodes[n].children)]
	for len(children) > 4 { // by halves; the last few in order, which is faster
		half := len(children) / 2
		if children[half].letter <= letter {
			children = children[half:]
			first += int32(half)
		} else {
			children = children[:half]
		}
	}
	for i := range children {
		if children[i].letter == letter {
			return first + int32(i)
		}
	}
	return 0
}

// step returns the longest beginning that a text ends in, from that before its last letter.
func (t *trie) step(n int32, letter byte) int32 {
	for {
		if next := t.child(n, letter); next != 0 || n == 0 {
			return next
		}
		n = t.nodes[n].suffix
	}
}

// longestPrefix returns the index of the longest text that s begins with, -1 for none.
func (t *trie) longestPrefix(s string) int32 {
	longest := int32(-1)
	n := int32(0)
	for i := range len(s) {
		n = t.child(n, s[i])
		if n == 0 {
			break
		}
		if text := t.nodes[n].text; text >= 0 {
			longest = text
		}
	}
	return longest
}

// longestSuffix returns the node of the longest text that ends in a node, 0 for none. That node's
// withText is the next shorter one.
func (t *trie) longestSuffix(n int32) int32 {
	if t.nodes[n].text >= 0 {
		return n
	}
	return t.nodes[n].withText
}

// mostSuffixes returns the most texts that end in one node, and the longest of these.
func (t *trie) mostSuffixes() (most int, longest string) {
	counts := make([]int, len(t.nodes))
	for n := 1; n < len(t.nodes); n++ { // a suffix is shorter, so that its count is there
		counts[n] = counts[t.nodes[n].withText]
		text := t.nodes[n].text
		if text < 0 {
			continue
		}
		counts[n]++
		if counts[n] > most {
			most = counts[n]
			longest = t.texts[text]
		}
	}
	return most, longest
}

// index returns the index of a text, -1 if it is none of the trie's.
func (t *trie) index(text string) int32 {
	if i, ok := slices.BinarySearchFunc(t.texts, text, strings.Compare); ok {
		return int32(i)
	}
	return -1
}
