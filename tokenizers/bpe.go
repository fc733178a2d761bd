package tokenizers

import (
	"fmt"
	"unicode/utf8"
)

// pair is two neighbouring ids.
type pair struct{ left, right int32 }

// merge is what a pair becomes, and how early.
type merge struct{ rank, id int32 }

// bpe holds the merges over byte tokens.
type bpe struct {
	bytes  [256]int32 // id of each byte's token, -1 if the vocabulary has none
	merges map[pair]merge
}

func newBPE() *bpe {
	b := &bpe{merges: map[pair]merge{}}
	for i := range b.bytes {
		b.bytes[i] = -1
	}
	return b
}

func (b *bpe) encode(text string) ([]int32, error) {
	var ids []int32
	for at := 0; at < len(text); {
		n := wordLen(text[at:])
		var err error
		if ids, err = b.appendWord(ids, text[at:at+n]); err != nil {
			return nil, fmt.Errorf("text: byte %d: %w", at, err)
		}
		at += n
	}
	return ids, nil
}

// appendWord merges the bytes of word, earliest merge first and among equals the leftmost,
// in time n log n for n bytes. The live symbols are a linked list; a heap entry counts
// only while its pair still stands at its place with the same merge.
func (b *bpe) appendWord(ids []int32, word string) ([]int32, error) {
	n := int32(len(word))
	symbols := make([]symbol, n)
	for i := range n {
		id := b.bytes[word[i]]
		if id < 0 {
			return nil, b.noToken(word, int(i))
		}
		symbols[i] = symbol{id: id, prev: i - 1, next: i + 1}
	}
	queue := make(rankHeap, 0, n)
	offer := func(i int32) {
		if i < 0 || symbols[i].next >= n {
			return
		}
		if m, ok := b.merges[pair{symbols[i].id, symbols[symbols[i].next].id}]; ok {
			queue.push(uint64(m.rank)<<32 | uint64(i))
		}
	}
	for i := range n - 1 {
		offer(i)
	}
	for len(queue) > 0 {
		top := queue.pop()
		i := int32(top & 0xffffffff)
		s := &symbols[i]
		if s.id < 0 || s.next >= n {
			continue // merged into its left neighbour, or now the last
		}
		right := &symbols[s.next]
		m, ok := b.merges[pair{s.id, right.id}]
		if !ok || m.rank != int32(top>>32) {
			continue // one of the two has grown since
		}
		s.id, right.id = m.id, -1
		s.next = right.next
		if s.next < n {
			symbols[s.next].prev = i
		}
		offer(s.prev)
		offer(i)
	}
	for i := int32(0); i < n; i = symbols[i].next {
		ids = append(ids, symbols[i].id)
	}
	return ids, nil
}

// noToken says which rune of word has a byte without a token.
func (b *bpe) noToken(word string, at int) error {
	start := at
	for start > 0 && !utf8.RuneStart(word[start]) {
		start--
	}
	r, _ := utf8.DecodeRuneInString(word[start:])
	return fmt.Errorf("%q is not in the vocabulary (no token for byte 0x%02x)", r, word[at])
}

// symbol is a live stretch of a word; id is -1 once it went into its left neighbour.
type symbol struct{ id, prev, next int32 }

// rankHeap is a binary min-heap of rank<<32 | place.
type rankHeap []uint64

func (h *rankHeap) push(v uint64) {
	a := append(*h, v)
	i := len(a) - 1
	for i > 0 && a[(i-1)/2] > v {
		a[i] = a[(i-1)/2]
		i = (i - 1) / 2
	}
	a[i] = v
	*h = a
}

func (h *rankHeap) pop() uint64 {
	a := *h
	top, v := a[0], a[len(a)-1]
	a = a[:len(a)-1]
	i := 0
	for 2*i+1 < len(a) {
		child := 2*i + 1
		if child+1 < len(a) && a[child+1] < a[child] {
			child++
		}
		if a[child] >= v {
			break
		}
		a[i] = a[child]
		i = child
	}
	if len(a) > 0 {
		a[i] = v
	}
	*h = a
	return top
}
