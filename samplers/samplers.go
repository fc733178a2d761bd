// Package samplers has the rules for which masked positions to open next and how to
// draw their tokens, one file a paper. A rule sees marginals only through a View.
//
// A Sampler says what it Needs, the denoising loop computes that for the whole batch
// in one pass over the output head, and then each sequence Chooses for itself. An
// order by position alone needs nothing, so the head runs at the chosen rows only.
package samplers

import "unmask/internal/philox"

// Need is what must be known of every masked position before a choice.
type Need struct {
	Beta    float64 // with Beta != 0: View.LogMoment, log sum_x p(x)^Beta
	Entropy bool    // View.Entropy, nats
	Top     bool    // View.P1, P2 and Arg
	Draw    bool    // View.Token and LogP: a token drawn from p at every masked position
	Logits  bool    // View.Visit may be called
}

// View is one sequence before a step. Slices are valid during the call.
type View struct {
	Tokens      []int32 // Mask where masked
	Mask        int32
	Shape       []int // of the sequence: [length] or [height, width]
	Step, Steps int   // n, from 1, and N
	Quota       int   // how many positions the schedule opens at this step
	Masked      []int // masked positions, ascending

	// What was needed, a value for each of Masked.
	LogMoment, Entropy, P1, P2, LogP []float64
	Arg, Token                       []int32

	// Visit hands over the logits (before normalising, outcomes first) of each of Masked.
	Visit func(visit func(i int, logits []float32)) error

	Rand philox.Stream // of this sequence and step
}

// Opening is a sampler's choice.
type Opening struct {
	Positions []int   // to open, the first to open first
	Tokens    []int32 // theirs, where the sampler drew them; nil: the loop draws from p^Power
	Power     float64 // 0 means 1
	Close     []int   // open positions to mask again (remasking samplers)
}

// Sampler is a rule for one step. Implementations are plain values, safe for many
// sequences at once.
type Sampler interface {
	Needs(step, steps int) Need
	Choose(v *View) (Opening, error)
}

// Order ranks masked positions: Rank returns k of them, the first to open first. An
// Order becomes a Sampler as ChooseThenSample{Order: o}.
type Order interface {
	Needs(step, steps int) Need
	Rank(v *View, k int) []int
}
