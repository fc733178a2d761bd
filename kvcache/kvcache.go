// Package kvcache keeps the keys and values of every layer of a full pass, so that a partial pass
// can recompute a few rows and take all others from the cache (Hayakawa et al., 2025, section
// "Partial caching approximation with transformers").
package kvcache

import (
	"cmp"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Layer is the shape of one attention layer.
type Layer struct {
	// Heads is the number of key and value heads, which may be fewer than those of queries.
	Heads   int
	HeadDim int

	// ValueDim is the numbers of a value; 0 means HeadDim. A layer that keeps something else than
	// keys and values has it in the place of keys, and as few values as can be.
	ValueDim int
}

// ValueWidth returns the numbers of a value.
func (l Layer) ValueWidth() int { return cmp.Or(l.ValueDim, l.HeadDim) }

// Cache holds K and V of all layers for a batch of sequences. They are plain tensors, which may be
// read, changed or replaced. One goroutine at a time may use one.
type Cache struct {
	// Batch is the number of sequences, and Length that of positions of each.
	Batch  int
	Length int

	// K and V have one tensor for each layer, [batch, heads, length, headDim].
	K []*tensor.Dense
	V []*tensor.Dense

	// States are further tensors kept for each sequence, [batch, width] each: for MAGE, the
	// decoder's input at masked positions.
	States []*tensor.Dense
}

// New allocates a cache on b for layers of these shapes and states of these widths.
func New(b backend.Backend, batch, length int, layers []Layer, states ...int) *Cache {
	c := &Cache{Batch: batch, Length: length}
	for _, l := range layers {
		c.K = append(c.K, b.New(batch, l.Heads, length, l.HeadDim))
		c.V = append(c.V, b.New(batch, l.Heads, length, l.ValueWidth()))
	}
	for _, width := range states {
		c.States = append(c.States, b.New(batch, width))
	}
	return c
}
