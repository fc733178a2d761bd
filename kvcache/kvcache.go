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
	Heads, HeadDim int
}

// Cache holds K and V of all layers for a batch of sequences. They are plain tensors:
// read them, change them, put others in their place.
type Cache struct {
	Batch, Length int
	K, V          []*tensor.Dense // a layer each: [batch, heads, length, headDim]

	// Aux is what a network keeps beside keys and values: MAGE its class row [batch, width].
	Aux *tensor.Dense
}

// New allocates a cache on b for layers of the given shapes.
func New(b backend.Backend, batch, length int, layers []Layer) *Cache {
	c := &Cache{Batch: batch, Length: length}
	for _, l := range layers {
		c.K = append(c.K, b.New(batch, l.Heads, length, l.HeadDim))
		c.V = append(c.V, b.New(batch, l.Heads, length, l.HeadDim))
	}
	return c
}
