// Package model is the seam between networks and samplers: a network's one-token marginals p_(i|U)
// given the known positions U. Networks make Marginals, samplers use them, and neither knows the
// other.
package model

import (
	"context"
	"slices"

	"unmask/backend"
	"unmask/kvcache"
)

// Spec describes the sequences that a model was trained on.
type Spec struct {
	// Shape is [1024] for text, [16, 16] for an image's codes.
	Shape []int

	// Outcomes is the number of tokens that can be drawn: 0..Outcomes-1.
	Outcomes int

	// Mask is the id of a masked position: not an outcome, or one that is never drawn.
	Mask int32

	// Fixed means that sequences have exactly the length of Shape; otherwise they may be shorter.
	Fixed bool

	// Ragged means that sequences of one batch may have different lengths.
	Ragged bool

	// Block is the size of a block: positions see their own block and those before it. 0 means that
	// they see all others. Blocks says how blocks lie where they open one after another.
	Block  int
	Blocks Blocks

	// Causal says how final tokens go through a Feeder.
	Causal Causal

	// Growth is nil if the length of a sequence is fixed.
	Growth *Growth

	// Sparse means that passes may leave positions out, see Batch.Kept and Batch.Shadows.
	Sparse bool

	// Shifted means that the network's own output at a position predicts the next one, see Raw.
	Shifted bool

	// AllRows means that a token's likelihood is its share among all rows of the head, also of those
	// that are never drawn, as the authors' programs score.
	AllRows bool

	// TextLength is the number of positions between BeforeText and AfterText of a text whose length
	// nobody says, where the model was published with one; 0 means another rule, see DefaultLength.
	TextLength int

	// EndTokens are tokens that end a text.
	EndTokens []int32

	// NeverDrawn are tokens below Outcomes that the network itself forbids.
	NeverDrawn []int32

	// Fillers are tokens that may be drawn and are no content, such as padding.
	Fillers []int32

	// BeforeText and AfterText are the tokens around every text, which are not shown with it: an
	// encoder's first and last.
	BeforeText []int32
	AfterText  []int32

	// Tail are the tokens behind all that is filled, where a text is known before or after it. They
	// take the last positions of its length, as in the authors' program, and are not shown.
	Tail []int32

	// Classes is the number of classes, 0..Classes-1; 0 means that the model is not
	// class-conditional. Prompt means that sequences are conditioned on a prompt.
	Classes int
	Prompt  bool
}

// Blocks says how the blocks of a model with Spec.Block lie in a sequence that opens block after
// block.
type Blocks uint8

const (
	// WholeBlocks are counted from position 0. All of the last one is computed, if blocks have at
	// most 64 positions and the model has them, and what of it is behind the sequence's end is
	// dropped: the end does not change the text before it.
	WholeBlocks Blocks = iota
	// CutBlocks are counted from position 0, and the last ends with the sequence.
	CutBlocks
	// AnswerBlocks are counted from the first masked position, so that a prompt's first block may be
	// short, and the last ends with the sequence.
	AnswerBlocks
)

// IsConditional reports whether sequences are conditioned on a class or a prompt.
func (s Spec) IsConditional() bool { return s.Classes > 0 || s.Prompt }

// Length returns the number of positions.
func (s Spec) Length() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// DefaultTextLength is the number of positions of a text that a network of more than longCanvas
// makes when nobody says how long it is: LLaDA's own program has it.
const (
	DefaultTextLength = 128
	longCanvas        = 1024
)

// DefaultLength returns the number of positions of a sequence whose length nobody says: those of
// TextLength, or all of them, or DefaultTextLength and the tokens around every text where the
// network's longest sequence is a bound of its position encoding (131072 of Dream's), not a length
// that it was made for.
func (s Spec) DefaultLength() int {
	n := s.Length()
	if s.TextLength > 0 {
		return min(s.TextLength+s.SpecialCount(), n)
	}
	if s.Fixed || len(s.Shape) > 1 || n <= longCanvas {
		return n
	}
	return DefaultTextLength + s.SpecialCount()
}

// IsFiller reports whether a token is no content: one of those around every text, or of Fillers.
func (s *Spec) IsFiller(token int32) bool {
	return slices.Contains(s.BeforeText, token) || slices.Contains(s.AfterText, token) ||
		slices.Contains(s.Fillers, token)
}

// SpecialCount returns the number of tokens around every text.
func (s Spec) SpecialCount() int { return len(s.BeforeText) + len(s.AfterText) }

// TailBehind returns the tokens that stand at the end of a text of which some tokens are known,
// masks among them: none where nothing is known.
func (s Spec) TailBehind(tokens []int32) []int32 {
	for _, token := range tokens {
		if token != s.Mask {
			return s.Tail
		}
	}
	return nil
}

// TailCount returns how many of a sequence's last tokens are the model's Tail: all of it or none.
func (s Spec) TailCount(tokens []int32) int {
	tailStart := len(tokens) - len(s.Tail)
	if tailStart < 0 || !slices.Equal(tokens[tailStart:], s.Tail) {
		return 0
	}
	return len(s.Tail)
}

// BlankTokens returns a sequence of so many positions of which nothing is known but the tokens
// around every text; without room for a masked position between them it is masks alone.
func (s Spec) BlankTokens(length int) []int32 {
	tokens := slices.Repeat([]int32{s.Mask}, length)
	if s.SpecialCount() < length {
		copy(tokens, s.BeforeText)
		copy(tokens[length-len(s.AfterText):], s.AfterText)
	}
	return tokens
}

// CountMasked returns the number of masked positions in tokens; nil is a sequence of masks alone.
func (s Spec) CountMasked(tokens []int32) (n int) {
	if tokens == nil {
		return s.Length()
	}
	for _, t := range tokens {
		if t == s.Mask {
			n++
		}
	}
	return n
}

// Stats and Draw hold what one pass over the output head can compute; their slices have one value
// for each row that was asked for.
type (
	Stats = backend.HeadStats
	Draw  = backend.HeadDraw
)

// Marginals are the p_(i|U) of the latest pass. A row is sequence*Length + position. Logits are not
// stored: each call is one pass over the output head for the rows asked for, so 1024 positions x
// 50258 tokens (206 MB) never exist at once. A logit that is NaN or +Inf is an error that names the
// position.
//
// Marginals are valid until the model's next pass.
type Marginals interface {
	Stats(rows []int32, s *Stats) error
	Sample(rows []int32, d *Draw) error
	// Visit passes the logits of one row at a time to visit, perhaps from several goroutines; i is
	// the row's index in rows. logits may have more columns than Spec.Outcomes (the mask token's).
	// The slice is valid only during the call and may be written to.
	Visit(rows []int32, visit func(i int, logits []float32)) error
}

// Raw are Marginals of a network whose outputs are not the marginals themselves: they belong to
// other positions, or include a forbidden outcome.
type Raw interface {
	Marginals
	// Raw returns the network's outputs: row i is the output at position i.
	Raw() Marginals
}

// HiddenStates are Marginals of a network that also shows its last hidden states.
type HiddenStates interface {
	Marginals
	// Hidden returns the states [rows, width] of rows after the network's last norm, as the network
	// has them: they are not shifted.
	Hidden(rows []int32) (states []float32, width int, err error)
}

// Chooser are Marginals that may be able to choose positions and draw tokens on their device, so
// that only the results are copied to the host.
type Chooser interface {
	Marginals
	CanChoose() bool
	Choose(rows []int32, c *backend.Choice) error // the candidates of c are rows
}

// Denoiser is a network, or anything else that computes marginals. It owns its working memory: one
// pass at a time, whose Marginals are valid until the next pass. Goroutines may share a Denoiser
// that is a Locker, as all networks of this module are. Spec may be called at any time.
type Denoiser interface {
	Spec() Spec
	Forward(ctx context.Context, b *Batch) (Marginals, error)
}

// Blockwise is a Denoiser whose attention can use blocks of any size.
type Blockwise interface {
	Denoiser
	// WithBlock returns the same network with another Spec.Block, a power of two or 0. The two
	// share their lock and working memory: a pass of either invalidates the Marginals of both.
	WithBlock(block int) (Denoiser, error)
}

// Refiner is a Denoiser that can recompute a few rows: Refine embeds b.Tokens at rows, takes every
// other position's key and value from b.Cache, and writes the new ones there. Its Marginals hold
// these rows only. A cache belongs to the caller of NewCache.
type Refiner interface {
	Denoiser
	NewCache(batch, length int) *kvcache.Cache
	Refine(ctx context.Context, b *Batch, rows []int32) (Marginals, error)
}
