package model

import (
	"context"

	"unmask/kvcache"
)

// Causal says how final tokens go through a Feeder. Their keys and values never change afterwards.
type Causal uint8

// The kinds of causal models.
const (
	NotCausal Causal = iota
	// NextToken: a final token's row sees the tokens before it and predicts the next position.
	// Positions that are being filled see all final tokens and each other, and leave no keys and
	// values (Nemotron-Labs-Diffusion).
	NextToken
	// MasksLast: known tokens are fed first, then masks, each by position; a row sees those fed
	// before it and predicts its own position (WeDLM).
	MasksLast
)

// Feeding says how the rows of one pass of a Feeder see each other.
type Feeding uint8

// The kinds of passes. With MasksLast all are the same.
const (
	// Commit: rows see the rows before them and themselves, and predict the next position.
	Commit Feeding = iota
	// Fill: rows see everything before them and each other.
	Fill
	// Draft is Fill with the adapter that a model may have for drafts.
	Draft
)

// Feeder is a Denoiser whose final tokens are computed once, causally (Spec.Causal).
type Feeder interface {
	Denoiser
	NewCache(batch, length int) *kvcache.Cache
	// Feed computes rows, those of a sequence ascending and without gaps, on top of the keys and
	// values that b.Cache has of the positions before them. b.Lengths must be the ends of the rows:
	// one more than the last position of each sequence. The Marginals belong to positions, as those
	// of other passes: after a Commit of a NextToken model, the row of position p has what the row
	// p-1 predicts, so b.ReadRows may have the position after the last row.
	Feed(ctx context.Context, b *Batch, rows []int32, how Feeding) (Marginals, error)
}

// Growth is what a model may write at a masked position beside a token of the text (DreamOn).
type Growth struct {
	Expand int32 // the position becomes two masks
	Delete int32 // the position is removed
}
