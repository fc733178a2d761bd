package model

import (
	"fmt"
	"slices"

	"unmask/kvcache"
)

// Batch is the input of one pass. A row is sequence*Length + position.
type Batch struct {
	// Size is the number of sequences, and Length that of positions of each.
	Size   int
	Length int

	// Lengths, [Size], are the positions in use, 1 to Length, the first ones; nil means all.
	Lengths []int

	// Tokens, [Size, Length], are Spec.Mask where masked, and anything at unused positions.
	Tokens []int32

	// Time, [Size], runs from 1, all masked, to 0; nil where the model ignores it.
	Time []float64

	// Conditions, [Size], has nil elements for none; a nil slice means none at all.
	Conditions []*Condition

	// Kept [Size] are the positions that the network sees, ascending, which must be the same as in
	// the pass that wrote Cache; a nil element, or a nil slice: all. The others are in no pass. Only
	// with Spec.Sparse.
	Kept [][]int32
	// Shadows [Size] are positions that a sequence has a second row of, ascending: its last
	// positions in use, whose tokens are given too. Nothing but a shadow sees shadows. A shadow
	// sees all shadows of its sequence, and all other positions than its own or, where attention
	// is causal, those before it and itself alone. Only with Spec.Sparse, without Kept.
	Shadows [][]int32

	// ReadRows lists the rows that the Marginals will be asked for, ascending; a network need not
	// compute the other rows to their end. Nil means all rows.
	ReadRows []int32

	// Cache, when not nil, receives the keys and values of a full pass. A partial pass takes the
	// keys and values of all other positions from it.
	Cache *kvcache.Cache
	// Places [Size] are the indexes of the sequences in Cache, all different; nil: sequence i is at
	// index i.
	Places []int

	// CacheReused means that later steps read Cache, with other tokens, before the next full pass of
	// these sequences.
	CacheReused bool

	// Observer, when not nil, is shown what a full pass computes inside. The caller must leave
	// ReadRows nil then.
	Observer Observer

	// Steps [Size] are the steps of the sequences, on which guidance may depend; nil: there is no
	// guidance.
	Steps []Progress

	// LastOpened [Size] are the positions that opened last, -1 where none has or the step before
	// opened none; nil: as if all were -1. PGM's images depend on it.
	LastOpened []int32
}

// Progress is the step that a sequence is at: N, counted from 1, of Steps.
type Progress struct{ N, Steps int }

// elementOr returns an element of a list, or a value where the list is nil.
func elementOr[T any](list []T, i int, otherwise T) T {
	if list == nil {
		return otherwise
	}
	return list[i]
}

// UsedLength returns the number of positions of a sequence that are in use.
func (b *Batch) UsedLength(sequence int) int { return elementOr(b.Lengths, sequence, b.Length) }

// kept returns the positions of a sequence that the network sees, nil for all.
func (b *Batch) kept(sequence int) []int32 { return elementOr(b.Kept, sequence, nil) }

// shadows returns the positions that a sequence has a second row of.
func (b *Batch) shadows(sequence int) []int32 { return elementOr(b.Shadows, sequence, nil) }

// keys returns the number of keys of a sequence that its own rows can see.
func (b *Batch) keys(sequence int) int {
	if visible := b.kept(sequence); visible != nil {
		return len(visible)
	}
	return b.UsedLength(sequence) - len(b.shadows(sequence))
}

// slot returns where the key of a position lies, -1 for nowhere.
func (b *Batch) slot(sequence, pos int) int {
	visible := b.kept(sequence)
	if visible == nil {
		return pos
	}
	if slot, ok := slices.BinarySearch(visible, int32(pos)); ok {
		return slot
	}
	return -1
}

// lastOpened returns the position of a sequence that opened last, -1 for none.
func (b *Batch) lastOpened(sequence int) int { return int(elementOr(b.LastOpened, sequence, -1)) }

// Place returns the index of a sequence in Cache.
func (b *Batch) Place(sequence int) int { return elementOr(b.Places, sequence, sequence) }

// Condition returns the condition of a sequence, nil for none.
func (b *Batch) Condition(sequence int) *Condition { return elementOr(b.Conditions, sequence, nil) }

// Check returns a one-line error for a batch that no model with this Spec can compute. Networks
// call it first. It does not check ReadRows and the rows of a partial pass, which the loop makes.
func (b *Batch) Check(s Spec) error {
	longest := s.Length()
	switch {
	case s.Fixed && b.Length != longest:
		return fmt.Errorf("length is %d, want %d", b.Length, longest)
	case b.Length < 1 || b.Length > longest && b.Shadows == nil:
		return fmt.Errorf("length is %d, want 1 to %d", b.Length, longest)
	case (b.Kept != nil || b.Shadows != nil) && !s.Sparse:
		return fmt.Errorf("passes leave positions out or have shadows, want neither")
	case b.Size < 1 || len(b.Tokens) != b.Size*b.Length:
		return fmt.Errorf("a batch of %d x %d has %d tokens, want %d", b.Size, b.Length, len(b.Tokens),
			b.Size*b.Length)
	case b.Time != nil && len(b.Time) != b.Size && len(b.Time) != 0:
		return fmt.Errorf("a batch of %d has %d times, want as many", b.Size, len(b.Time))
	case b.Lengths != nil && len(b.Lengths) != b.Size:
		return fmt.Errorf("a batch of %d has %d lengths, want as many", b.Size, len(b.Lengths))
	case b.Conditions != nil && len(b.Conditions) != b.Size:
		return fmt.Errorf("a batch of %d has %d conditions, want as many", b.Size, len(b.Conditions))
	case b.LastOpened != nil && len(b.LastOpened) != b.Size:
		return fmt.Errorf("a batch of %d has %d positions that opened last, want as many", b.Size,
			len(b.LastOpened))
	case b.Places != nil && len(b.Places) != b.Size:
		return fmt.Errorf("a batch of %d has %d places, want as many", b.Size, len(b.Places))
	}
	for i := range b.Size {
		if err := b.checkSequence(s, i); err != nil {
			return err
		}
	}
	return nil
}

// checkSequence is Check for one sequence.
func (b *Batch) checkSequence(s Spec, i int) error {
	n := b.UsedLength(i)
	if n < 1 || n > b.Length || b.keys(i) > s.Length() || s.Fixed && n != b.Length {
		return fmt.Errorf("length of sequence %d is %d, want 1 to %d", i, n, b.Length)
	}
	for p, t := range b.Tokens[i*b.Length:][:n] {
		if t != s.Mask && (t < 0 || int(t) >= s.Outcomes) {
			return fmt.Errorf("token %d of sequence %d is %d, want 0 to %d or the mask %d", p, i, t,
				s.Outcomes-1, s.Mask)
		}
	}
	if err := s.CheckCondition(b.Condition(i)); err != nil {
		return fmt.Errorf("sequence %d: %w", i, err)
	}
	if c := b.Cache; c != nil {
		place := b.Place(i)
		if place < 0 || place >= c.Batch || c.Length < b.Length {
			return fmt.Errorf("sequence %d of length %d is at place %d of a cache of %d x %d", i,
				b.Length, place, c.Batch, c.Length)
		}
	}
	return nil
}
