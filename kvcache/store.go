package kvcache

import (
	"container/list"
	"encoding/binary"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Store keeps keys and values of the beginnings of sequences after these have ended, so that a
// later sequence that begins with the same tokens, such as the next message of a conversation,
// need not compute them. It is for one network in which they depend on the tokens before them
// alone, or on those up to the end of their block.
//
// Beginnings are cut into pieces, and equal ones share theirs (as in Kwon et al. 2023, "Efficient
// memory management for large language model serving with PagedAttention"). What was not used for
// longest goes first. Goroutines may share a Store.
type Store struct {
	mu         sync.Mutex
	most, used int64 // bytes
	pieces     map[link]*piece
	order      list.List // of *piece, last used first; a piece is before those that follow it
}

// pieceLength is the number of positions of a piece, if blocks are not longer.
const pieceLength = 32

// link is what a piece is found by: the piece before it, the positions of a block, and its tokens.
type link struct {
	before *piece
	block  int
	tokens string
}

// piece is the keys and values of some positions, on the host.
type piece struct {
	link
	values []float32 // of each layer K and V, [heads, positions, headDim]
	place  *list.Element
}

// NewStore returns an empty store of at most so many bytes of keys and values.
func NewStore(bytes int64) *Store {
	return &Store{most: bytes, pieces: map[link]*piece{}}
}

// Bytes returns the bytes of the keys and values that are kept.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Prefix is a kept beginning. It stays valid when the store drops it.
type Prefix struct {
	Length int // positions
	pieces []*piece
}

// Find returns the longest kept beginning of tokens. block is the positions of a block, 1 if each
// position sees only those before it.
func (s *Store) Find(tokens []int32, block int) Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.path(tokens, block)
	return Prefix{Length: len(path) * max(pieceLength, block), pieces: path}
}

// path returns the pieces of the longest kept beginning and marks them as used.
func (s *Store) path(tokens []int32, block int) (path []*piece) {
	n := max(pieceLength, block)
	at := link{block: block}
	for ; len(tokens) >= n; tokens = tokens[n:] {
		at.tokens = spell(tokens[:n])
		p := s.pieces[at]
		if p == nil {
			break
		}
		path, at.before = append(path, p), p
	}
	for i := range path {
		s.order.MoveToFront(path[len(path)-1-i].place)
	}
	return path
}

func spell(tokens []int32) string {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return string(b)
}

// Keep copies the keys and values of the first positions of a sequence, which were computed from
// these tokens, from its place in a cache. Those of the last, unfinished piece are left out, and so
// are those for which there is no room.
func (s *Store) Keep(c *Cache, place int, tokens []int32, block int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(pieceLength, block)
	path := s.path(tokens, block)
	at := link{block: block}
	if len(path) > 0 {
		at.before = path[len(path)-1]
	}
	size := 0
	c.each(place, 0, n, func(_ backend.Backend, _ *tensor.Dense, _, values int) { size += values })
	for from := len(path) * n; from+n <= len(tokens); from += n {
		if !s.makeRoom(int64(4*size), at.before) {
			return
		}
		at.tokens = spell(tokens[from : from+n])
		p := &piece{link: at, values: make([]float32, 0, size)}
		c.each(place, from, n, func(b backend.Backend, t *tensor.Dense, row, values int) {
			end := len(p.values) + values
			b.Read(p.values[len(p.values):end], t, row)
			p.values = p.values[:end]
		})
		if p.place = s.order.PushFront(p); at.before != nil {
			s.order.MoveAfter(p.place, at.before.place)
		}
		s.pieces[at], s.used, at.before = p, s.used+int64(4*size), p
	}
}

// makeRoom drops pieces until there is room for so many bytes more, but none of the path that ends
// with `last`. It reports whether there is.
func (s *Store) makeRoom(bytes int64, last *piece) bool {
	for s.used+bytes > s.most {
		back := s.order.Back()
		if back == nil || back.Value.(*piece) == last {
			return false
		}
		p := back.Value.(*piece)
		s.order.Remove(back)
		delete(s.pieces, p.link)
		s.used -= int64(4 * len(p.values))
	}
	return true
}

// CopyTo copies the keys and values to a sequence's place in a cache.
func (p Prefix) CopyTo(c *Cache, place int) {
	if len(p.pieces) == 0 {
		return
	}
	n := p.Length / len(p.pieces)
	for i, one := range p.pieces {
		at := 0
		c.each(place, i*n, n, func(b backend.Backend, t *tensor.Dense, row, values int) {
			b.Write(t, row, one.values[at:at+values])
			at += values
		})
	}
}

// each calls do for the keys and the values of each layer and head at positions from..from+n-1 of a
// sequence: with their first row in t and their number of values, which lie side by side.
func (c *Cache) each(place, from, n int,
	do func(b backend.Backend, t *tensor.Dense, row, values int)) {
	for layer := range c.K {
		for _, t := range []*tensor.Dense{c.K[layer], c.V[layer]} {
			heads := t.Shape()[1]
			for head := range heads {
				row := (place*heads+head)*c.Length + from
				do(t.Engine().(backend.Backend), t, row, n*backend.Width(t))
			}
		}
	}
}
