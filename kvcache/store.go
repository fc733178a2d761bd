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
	mu sync.Mutex

	// limit is the most bytes of keys and values, and used those that are kept.
	limit int64
	used  int64

	pieces map[pieceKey]*piece

	// order has the pieces, last used first. A piece is before those that follow it in a sequence,
	// because without it nobody would find those.
	order list.List
}

// pieceLength is the number of positions of a piece, if blocks are not longer.
const pieceLength = 32

// pieceKey is what a piece is found by: the piece before it, the positions of a block, and its
// tokens.
type pieceKey struct {
	before *piece
	block  int
	tokens string
}

// piece is the keys and values of some positions, on the host.
type piece struct {
	key pieceKey

	// values are of each layer K and V, [heads, positions, headDim].
	values []float32

	// element is the piece's in Store.order.
	element *list.Element
}

// NewStore returns an empty store of at most so many bytes of keys and values.
func NewStore(bytes int64) *Store {
	return &Store{limit: bytes, pieces: map[pieceKey]*piece{}}
}

// Bytes returns the bytes of the keys and values that are kept.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Prefix is a kept beginning. It stays valid when the store drops it.
type Prefix struct {
	// Length is the number of positions.
	Length int

	pieces []*piece
}

// Find returns the longest kept beginning of tokens. block is the positions of a block, 1 if each
// position sees only those before it.
func (s *Store) Find(tokens []int32, block int) Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.findPath(tokens, block)
	return Prefix{Length: len(path) * max(pieceLength, block), pieces: path}
}

// findPath returns the pieces of the longest kept beginning and marks them as used.
func (s *Store) findPath(tokens []int32, block int) (path []*piece) {
	n := max(pieceLength, block)
	key := pieceKey{block: block}
	for ; len(tokens) >= n; tokens = tokens[n:] {
		key.tokens = tokenBytes(tokens[:n])
		p := s.pieces[key]
		if p == nil {
			break
		}
		path = append(path, p)
		key.before = p
	}
	for i := len(path) - 1; i >= 0; i-- { // so that the first piece is in front
		s.order.MoveToFront(path[i].element)
	}
	return path
}

// tokenBytes returns tokens as a text that can be a part of a map's key.
func tokenBytes(tokens []int32) string {
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
	path := s.findPath(tokens, block)
	key := pieceKey{block: block}
	if len(path) > 0 {
		key.before = path[len(path)-1]
	}
	size := 0 // of a piece, in values
	c.visitValues(place, 0, n, func(_ backend.Backend, _ *tensor.Dense, _, values int) {
		size += values
	})
	bytes := int64(4 * size)
	for first := len(path) * n; first+n <= len(tokens); first += n {
		if !s.makeRoom(bytes, key.before) {
			return
		}
		key.tokens = tokenBytes(tokens[first : first+n])
		p := &piece{key: key, values: make([]float32, 0, size)}
		c.visitValues(place, first, n, func(b backend.Backend, t *tensor.Dense, row, values int) {
			end := len(p.values) + values
			b.Read(p.values[len(p.values):end], t, row)
			p.values = p.values[:end]
		})

		p.element = s.order.PushFront(p)
		if key.before != nil { // a piece must not be dropped before those that are found through it
			s.order.MoveAfter(p.element, key.before.element)
		}
		s.pieces[key] = p
		s.used += bytes
		key.before = p
	}
}

// makeRoom drops the pieces that were not used for longest until there is room for so many bytes
// more, but none of the path that ends with `last`. It reports whether there is room.
func (s *Store) makeRoom(bytes int64, last *piece) bool {
	for s.used+bytes > s.limit {
		back := s.order.Back()
		if back == nil {
			return false
		}
		// The path is in front of all else, so once its end is the last there is nothing to drop.
		p := back.Value.(*piece)
		if p == last {
			return false
		}
		s.order.Remove(back)
		delete(s.pieces, p.key)
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
	for i, piece := range p.pieces {
		unread := piece.values // in the order in which Keep visited them
		c.visitValues(place, i*n, n, func(b backend.Backend, t *tensor.Dense, row, values int) {
			b.Write(t, row, unread[:values])
			unread = unread[values:]
		})
	}
}

// visitValues calls visit for the keys and the values of each layer and head at positions
// first..first+n-1 of a sequence: with their first row in t and their number of values, which lie
// side by side.
func (c *Cache) visitValues(place, first, n int,
	visit func(b backend.Backend, t *tensor.Dense, row, values int)) {
	for layer := range c.K {
		for _, t := range []*tensor.Dense{c.K[layer], c.V[layer]} {
			heads := t.Shape()[1]
			for head := range heads {
				row := (place*heads+head)*c.Length + first
				visit(t.Engine().(backend.Backend), t, row, n*backend.Width(t))
			}
		}
	}
}
