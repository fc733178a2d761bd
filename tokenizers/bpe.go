package tokenizers

import (
	"fmt"
	"unicode/utf8"
)

// pair is two neighbouring ids.
type pair struct{ left, right int32 }

// merge is the result of a pair and its rank.
type merge struct{ rank, id int32 }

// bpe holds the merges, over bytes or over runes.
type bpe struct {
	bytes  [256]int32     // id of each byte's token, -1 if the vocabulary has none
	last   *[256]int32    // the same for the last byte of a word; nil: bytes
	suffix string         // of tokens that end a word, "" for none
	runes  map[rune]int32 // id of each rune's token; nil where words are bytes
	merges map[pair]merge

	unknownText string
	unknown     int32 // id for whatever has no token, -1 if there is none
	fuse        bool  // consecutive symbols without a token become one unknown token
	falls       bool  // symbols without a token become the tokens of their bytes
	fallback    [256]int32
	ignore      bool             // a word that is a token is not merged
	whole       map[string]int32 // those words
}

func newBPE() *bpe {
	b := &bpe{merges: map[pair]merge{}, unknown: -1}
	for i := range b.bytes {
		b.bytes[i], b.fallback[i] = -1, -1
	}
	return b
}

// scratch is the memory of one call of Encode.
type scratch struct {
	symbols []symbol
	queue   rankHeap
	seen    map[string][2]int // start and end in the output of the ids of short words
}

const (
	seenWords = 1 << 14 // most words that a call remembers
	seenBytes = 48      // longest of these in bytes
)

// append adds the ids of word, copied from an earlier occurrence if there is one.
func (b *bpe) append(ids []int32, word string, s *scratch) ([]int32, error) {
	if at, ok := s.seen[word]; ok {
		return append(ids, ids[at[0]:at[1]]...), nil
	}
	start := len(ids)
	ids, err := b.appendWord(ids, word, s)
	if err == nil && len(word) <= seenBytes && len(s.seen) < seenWords {
		if s.seen == nil {
			s.seen = map[string][2]int{}
		}
		s.seen[word] = [2]int{start, len(ids)}
	}
	return ids, err
}

// appendWord merges the bytes or runes of word: the earliest merge first, and among equals the
// leftmost, in time n log n. Symbols form a linked list; a heap entry is valid only while its pair
// is still at its place with the same merge.
func (b *bpe) appendWord(ids []int32, word string, s *scratch) ([]int32, error) {
	if b.ignore {
		if id, ok := b.whole[word]; ok {
			return append(ids, id), nil
		}
	}
	if err := b.start(word, s); err != nil {
		return nil, err
	}
	symbols, n := s.symbols, int32(len(s.symbols))
	if n <= shortWord {
		return b.appendShort(ids, symbols), nil
	}
	queue := s.queue[:0]
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
			continue // already merged into its left neighbour, or now the last symbol
		}
		right := &symbols[s.next]
		m, ok := b.merges[pair{s.id, right.id}]
		if !ok || m.rank != int32(top>>32) {
			continue // one of the two has since been merged
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
	s.queue = queue
	return ids, nil
}

const shortWord = 24 // symbols

// appendShort merges a few symbols by checking every pair, which is faster than a heap.
func (b *bpe) appendShort(ids []int32, symbols []symbol) []int32 {
	// what each symbol and the next merge to; the rank is none if they do not merge
	var found [shortWord]merge
	const none = 1<<31 - 1
	at := func(i int) merge {
		if m, ok := b.merges[pair{symbols[i].id, symbols[i+1].id}]; ok {
			return m
		}
		return merge{rank: none}
	}
	n := len(symbols)
	for i := range n - 1 {
		found[i] = at(i)
	}
	for n > 1 {
		best := 0
		for i := 1; i < n-1; i++ {
			if found[i].rank < found[best].rank {
				best = i
			}
		}
		if found[best].rank == none {
			break
		}
		symbols[best].id = found[best].id
		copy(symbols[best+1:n-1], symbols[best+2:n])
		n--
		if best < n-1 {
			copy(found[best+1:n-1], found[best+2:n])
			found[best] = at(best)
		}
		if best > 0 {
			found[best-1] = at(best - 1)
		}
	}
	for _, s := range symbols[:n] {
		ids = append(ids, s.id)
	}
	return ids
}

// start makes the first symbols of word, one for each byte or rune. A rune without a token becomes
// the tokens of its bytes or the unknown token. As in the library, a pending unknown token is added
// only before the next rune with a token of its own, so it comes after the bytes of other runes.
func (b *bpe) start(word string, s *scratch) error {
	s.symbols = s.symbols[:0]
	put := func(id int32) {
		i := int32(len(s.symbols))
		s.symbols = append(s.symbols, symbol{id: id, prev: i - 1, next: i + 1})
	}
	waiting := false
	flush := func() {
		if waiting {
			put(b.unknown)
		}
		waiting = false
	}
	for at := 0; at < len(word); {
		id, size := int32(-1), 1
		r := rune(0)
		if b.runes == nil {
			id = b.bytes[word[at]]
			if b.last != nil && at == len(word)-1 {
				id = b.last[word[at]]
			}
		} else {
			var ok bool
			r, size = decode(word[at:])
			if id, ok = b.runes[r]; !ok {
				id = -1
			}
		}
		switch {
		case id >= 0:
			flush()
			put(id)
		case b.falls && b.fall(word[at:at+size], put):
		case b.unknown >= 0:
			if !b.fuse {
				flush()
			}
			waiting = true
		default:
			return b.noToken(word, at)
		}
		at += size
	}
	flush()
	return nil
}

// fall adds the tokens of one rune's bytes, if each byte has one. A byte in the alphabet falls back
// to the bytes of the rune that stands for it.
func (b *bpe) fall(text string, put func(int32)) bool {
	if b.runes == nil {
		text = string(standIn[text[0]])
	}
	for i := range len(text) {
		if b.fallback[text[i]] < 0 {
			return false
		}
	}
	for i := range len(text) {
		put(b.fallback[text[i]])
	}
	return true
}

// noToken returns the error for a rune of word that has a byte without a token.
func (b *bpe) noToken(word string, at int) error {
	start := at
	for start > 0 && !utf8.RuneStart(word[start]) {
		start--
	}
	r, _ := utf8.DecodeRuneInString(word[start:])
	return fmt.Errorf("%q is not in the vocabulary (no token for byte 0x%02x)", r, word[at])
}

// symbol is a stretch of a word; its id is -1 once it was merged into its left neighbour.
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
