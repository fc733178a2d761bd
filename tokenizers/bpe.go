package tokenizers

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// pair is two neighbouring ids.
type pair struct{ left, right int32 }

// merge is the result of a pair and its rank.
type merge struct{ rank, id int32 }

// bpe holds the merges, over bytes or over runes.
type bpe struct {
	// byteIDs are the ids of each byte's token, -1 if the vocabulary has none. lastByteIDs are those
	// for the last byte of a word; nil means the same. runeIDs is nil where words are bytes.
	byteIDs     [256]int32
	lastByteIDs *[256]int32
	runeIDs     map[rune]int32

	// endSuffix is that of tokens that end a word, "" for none.
	endSuffix string

	merges map[pair]merge

	// forbidden are the ids that no word becomes. Words may be merged by way of them.
	forbidden map[int32]bool

	// unknownID is for whatever has no token, -1 if there is none. fusesUnknown: consecutive symbols
	// without a token become one unknown token.
	unknownText  string
	unknownID    int32
	fusesUnknown bool

	// fallsBack: symbols without a token become the tokens of their bytes, fallbackIDs.
	fallsBack   bool
	fallbackIDs [256]int32

	// ignoresMerges: a word that is a token is not merged. wholeWords are those words.
	ignoresMerges bool
	wholeWords    map[string]int32
}

// newBPE returns a model without tokens and merges.
func newBPE() *bpe {
	b := &bpe{merges: map[pair]merge{}, unknownID: -1}
	for i := range b.byteIDs {
		b.byteIDs[i] = -1
		b.fallbackIDs[i] = -1
	}
	return b
}

// scratch is the memory of one call of Encode.
type scratch struct {
	// stop is that of the vocabulary, and work what was done since it was last called.
	stop func() error
	work int

	symbols []symbol
	queue   rankHeap

	// wordPlaces has for each short word the start and the end of its ids in the output.
	wordPlaces map[string][2]int
}

const (
	maxSeenWords = 1 << 14 // most words that a call remembers
	maxSeenBytes = 48      // longest of these in bytes
)

// appendIDs adds the ids of word, copied from an earlier occurrence if there is one: most texts
// repeat most of their words.
func (b *bpe) appendIDs(ids []int32, word string, s *scratch) ([]int32, error) {
	if place, ok := s.wordPlaces[word]; ok {
		return append(ids, ids[place[0]:place[1]]...), nil
	}
	start := len(ids)
	ids, err := b.appendWord(ids, word, s)
	if err == nil && len(word) <= maxSeenBytes && len(s.wordPlaces) < maxSeenWords {
		if s.wordPlaces == nil {
			s.wordPlaces = map[string][2]int{}
		}
		s.wordPlaces[word] = [2]int{start, len(ids)}
	}
	return ids, err
}

// readUnknown returns the unknown token, which stands for what has no token anyway.
func (b *bpe) readUnknown() int32 { return b.unknownID }

// appendWord merges the bytes or runes of word: the earliest merge first, and among equals the
// leftmost, in time n log n. A word that would have a forbidden id is merged again without the
// merges that end in one, so that other words are merged as the library does it. Symbols form a
// linked list; a heap entry is valid only while its pair is still at its place with the same merge.
func (b *bpe) appendWord(ids []int32, word string, s *scratch) ([]int32, error) {
	if b.ignoresMerges {
		if id, ok := b.wholeWords[word]; ok {
			return append(ids, id), nil
		}
	}
	start := len(ids)
	ids, err := b.appendMerged(ids, word, s, nil)
	if err == nil && slices.ContainsFunc(ids[start:], func(id int32) bool { return b.forbidden[id] }) {
		return b.appendMerged(ids[:start], word, s, b.forbidden)
	}
	return ids, err
}

// appendMerged merges word without the merges that end in the forbidden ids.
func (b *bpe) appendMerged(ids []int32, word string, s *scratch,
	forbidden map[int32]bool) ([]int32, error) {
	if err := b.splitSymbols(word, s); err != nil {
		return nil, err
	}
	symbols := s.symbols
	n := int32(len(symbols))
	if n <= shortWord {
		return b.appendShort(ids, symbols, forbidden), nil
	}
	queue := s.queue[:0]
	offer := func(i int32) {
		if i < 0 || symbols[i].next >= n {
			return
		}
		m, ok := b.merges[pair{symbols[i].id, symbols[symbols[i].next].id}]
		if ok && !forbidden[m.id] {
			queue.push(uint64(m.rank)<<32 | uint64(i))
		}
	}
	for i := range n - 1 {
		offer(i)
	}
	for len(queue) > 0 {
		if err := s.spend(1); err != nil {
			return ids, err
		}
		top := queue.pop()
		i := int32(top & 0xffffffff)
		left := &symbols[i]
		if left.id < 0 || left.next >= n {
			continue // already merged into its left neighbour, or now the last symbol
		}
		right := &symbols[left.next]
		m, ok := b.merges[pair{left.id, right.id}]
		if !ok || m.rank != int32(top>>32) || forbidden[m.id] {
			continue // one of the two has since been merged
		}
		left.id = m.id
		right.id = -1
		left.next = right.next
		if left.next < n {
			symbols[left.next].prev = i
		}
		offer(left.prev)
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
func (b *bpe) appendShort(ids []int32, symbols []symbol, forbidden map[int32]bool) []int32 {
	// What each symbol and the next merge to; the rank is none if they do not merge.
	var candidates [shortWord]merge
	const none = 1<<31 - 1
	mergeAt := func(i int) merge {
		m, ok := b.merges[pair{symbols[i].id, symbols[i+1].id}]
		if ok && !forbidden[m.id] {
			return m
		}
		return merge{rank: none}
	}
	n := len(symbols)
	for i := range n - 1 {
		candidates[i] = mergeAt(i)
	}
	for n > 1 {
		best := 0
		for i := 1; i < n-1; i++ {
			if candidates[i].rank < candidates[best].rank {
				best = i
			}
		}
		if candidates[best].rank == none {
			break
		}
		symbols[best].id = candidates[best].id
		copy(symbols[best+1:n-1], symbols[best+2:n])
		n--
		if best < n-1 {
			copy(candidates[best+1:n-1], candidates[best+2:n])
			candidates[best] = mergeAt(best)
		}
		if best > 0 {
			candidates[best-1] = mergeAt(best - 1)
		}
	}
	for _, s := range symbols[:n] {
		ids = append(ids, s.id)
	}
	return ids
}

// splitSymbols makes the first symbols of word, one for each byte or rune. A rune without a token
// becomes the tokens of its bytes or the unknown token. As in the library, a pending unknown token
// is added only before the next rune with a token of its own, so it comes after the bytes of other
// runes.
func (b *bpe) splitSymbols(word string, s *scratch) error {
	s.symbols = s.symbols[:0]
	put := func(id int32) {
		i := int32(len(s.symbols))
		s.symbols = append(s.symbols, symbol{id: id, prev: i - 1, next: i + 1})
	}
	unknownPending := false
	flushUnknown := func() {
		if unknownPending {
			put(b.unknownID)
		}
		unknownPending = false
	}
	for pos := 0; pos < len(word); {
		id, size := b.symbolAt(word, pos)
		switch {
		case id >= 0:
			flushUnknown()
			put(id)
		case b.fallsBack && b.fallBackToBytes(word[pos:pos+size], put):
		case b.unknownID >= 0:
			if !b.fusesUnknown {
				flushUnknown()
			}
			unknownPending = true
		default:
			return b.missingToken(word, pos)
		}
		pos += size
	}
	flushUnknown()
	return nil
}

// symbolAt returns the id of the byte or rune at a place of a word, -1 if it has no token, and its
// size in bytes.
func (b *bpe) symbolAt(word string, pos int) (id int32, size int) {
	if b.runeIDs != nil {
		r, size := decodeRune(word[pos:])
		if id, ok := b.runeIDs[r]; ok {
			return id, size
		}
		return -1, size
	}
	if b.lastByteIDs != nil && pos == len(word)-1 {
		return b.lastByteIDs[word[pos]], 1
	}
	return b.byteIDs[word[pos]], 1
}

// fallBackToBytes adds the tokens of one rune's bytes, if each byte has one. A byte in the alphabet
// falls back to the bytes of the rune that stands for it.
func (b *bpe) fallBackToBytes(text string, put func(int32)) bool {
	if b.runeIDs == nil {
		text = string(alphabetRunes[text[0]])
	}
	for i := range len(text) {
		if b.fallbackIDs[text[i]] < 0 {
			return false
		}
	}
	for i := range len(text) {
		put(b.fallbackIDs[text[i]])
	}
	return true
}

// missingToken returns the error for a rune of word that has a byte without a token.
func (b *bpe) missingToken(word string, pos int) error {
	start := pos
	for start > 0 && !utf8.RuneStart(word[start]) {
		start--
	}
	r, _ := utf8.DecodeRuneInString(word[start:])
	return fmt.Errorf("%q is not in the vocabulary (no token for byte 0x%02x)", r, word[pos])
}

// symbol is a stretch of a word; its id is -1 once it was merged into its left neighbour.
type symbol struct {
	id         int32
	prev, next int32 // places in the list
}

// rankHeap is a binary min-heap of rank<<32 | place.
type rankHeap []uint64

// push adds a value: it goes up until its parent is not larger.
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

// pop removes and returns the least value.
func (h *rankHeap) pop() uint64 {
	a := *h
	top := a[0]
	v := a[len(a)-1] // goes down from the top
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
