// Package model says what a sampler may know of a network: its one-token marginals
// p_(i|U) given the known positions U. Networks make Marginals, samplers use them,
// and neither knows the other.
package model

import (
	"context"

	"unmask/backend"
	"unmask/kvcache"
)

// Spec describes the sequences that a model was trained on.
type Spec struct {
	Shape    []int // [1024] for text, [16, 16] for an image's codes
	Outcomes int   // tokens 0..Outcomes-1 can be drawn
	Mask     int32 // the id of a masked position: no outcome, or one that is never drawn
	Fixed    bool  // the length must be that of Shape; otherwise it may be shorter
	Ragged   bool  // sequences of one batch may have different lengths
	// positions see those of their own block of this size and of blocks before it; 0: all
	Block   int
	Shifted bool    // the network's own output at a position predicts the next one, see Raw
	Ends    []int32 // tokens that end a text
	Classes int     // classes 0..Classes-1 can be asked for; 0: the model has none
	Prompt  bool    // sequences are drawn from a prompt
}

// Conditional reports whether sequences can be drawn from a class or a prompt.
func (s Spec) Conditional() bool { return s.Classes > 0 || s.Prompt }

// Length is the number of positions.
func (s Spec) Length() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Stats and Draw are what one pass over the output head can compute; the slices have
// one value for each row that was asked for.
type (
	Stats = backend.HeadStats
	Draw  = backend.HeadDraw
)

// Marginals are p_(i|U) of the last pass. A row is sequence*Length + position. Nothing is
// materialised: each call is one pass over the output head for the rows asked for, so
// 1024 positions x 50258 tokens (206 MB) never exist at once. Logits that are NaN or +Inf
// are an error that names the position.
//
// Marginals are valid until the model's next pass.
type Marginals interface {
	Stats(rows []int32, s *Stats) error
	Sample(rows []int32, d *Draw) error
	// Visit hands over the logits of one row at a time, perhaps from several goroutines, i
	// its index in rows. It may have more columns than Spec.Outcomes (the mask token's); the
	// slice is valid during the call only and may be written to.
	Visit(rows []int32, visit func(i int, logits []float32)) error
}

// Raw are Marginals of a network whose outputs are not the marginals as they are: they belong to
// other positions, or have a logit for an outcome that is forbidden.
type Raw interface {
	Marginals
	// Raw returns the network's own outputs: row i is what it computed at position i.
	Raw() Marginals
}

// Chooser are Marginals that may be able to choose positions and draw tokens where they are
// computed, so that only these are read.
type Chooser interface {
	Marginals
	Chooses() bool
	Choose(rows []int32, c *backend.Choice) error // the candidates of c are rows
}

// Denoiser is a network, or anything else that has marginals. It owns its working memory: one pass
// at a time, and its Marginals are valid until the next. Goroutines share one that is a Turner, as
// all networks of this module are; Spec may be called at any time.
type Denoiser interface {
	Spec() Spec
	Forward(ctx context.Context, b *Batch) (Marginals, error)
}

// Blockwise is a Denoiser that can attend by blocks of any size.
type Blockwise interface {
	Denoiser
	// WithBlock returns the same network with another Spec.Block, a power of two or 0. Both share
	// their turn and working memory: a pass of either ends the Marginals of both.
	WithBlock(block int) (Denoiser, error)
}

// Refiner is a Denoiser that can recompute a few rows: Refine embeds b.Tokens at rows,
// takes every other key and value from b.Cache, and writes the new ones there. Its
// Marginals answer for these rows alone. Caches belong to whoever asked for them.
type Refiner interface {
	Denoiser
	NewCache(batch, length int) *kvcache.Cache
	Refine(ctx context.Context, b *Batch, rows []int32) (Marginals, error)
}
