// Package kvcache keeps the keys and values of every layer of a full pass, so that a
// partial pass can recompute a few rows and take all others from here (Hayakawa et
// al. 2025, section "Partial caching approximation with transformers").
package kvcache

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Layer is the shape of one attention layer.
type Layer struct {
	Heads   int // of keys and values
	HeadDim int
}

// Cache holds K and V of all layers for a batch of sequences. They are plain tensors:
// read them, change them, put others in their place.
type Cache struct {
	Batch, Length int
	K, V          []*tensor.Dense // a layer each: [batch, heads, length, headDim]

	// States are what a network keeps of each sequence beside keys and values, [batch, width] each:
	// MAGE what its decoder sees at masked positions.
	States []*tensor.Dense
}

// New allocates a cache on b for layers of the given shapes and states of the given widths.
func New(b backend.Backend, batch, length int, layers []Layer, states ...int) *Cache {
	c := &Cache{Batch: batch, Length: length}
	for _, l := range layers {
		c.K = append(c.K, b.New(batch, l.Heads, length, l.HeadDim))
		c.V = append(c.V, b.New(batch, l.Heads, length, l.HeadDim))
	}
	for _, width := range states {
		c.States = append(c.States, b.New(batch, width))
	}
	return c
}
