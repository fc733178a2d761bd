package samplers

import "unmask/internal/philox"

// Use distinguishes the random numbers of one position in one step. Two rules that draw at the same
// position in the same step must not see the same number, so each purpose has a use of its own.
type Use uint32

// The uses of this package and of package generate.
const (
	ForOrder   = Use(philox.Order)   // noise that ranks positions
	ForToken   = Use(philox.Token)   // the token of a position
	ForReorder = Use(philox.Reorder) // a second, independent noise for ranking
	ForClose   = Use(philox.Remask)  // to choose which open positions close
	ForSetup   = Use(philox.Setup)   // before the first step
)

// ForRule to LastUse are free for rules of other modules. ForRule, ForRule+1 and so on are
// independent of each other and of all uses above.
const (
	ForRule Use = 16
	LastUse Use = 255
)

// Rand gives the random numbers of one sequence in one step. Each depends only on the seed, the
// sequence, the step, the position and the use, never on earlier draws, so that a sequence is the
// same alone, in a batch, and in whatever order rules are evaluated. The zero Rand is valid. The
// generator is Philox4x32-10 (Salmon et al. 2011).
type Rand struct {
	Seed uint64

	// Sequence is the sequence's index in the run, not in the batch.
	Sequence uint32

	Step uint32
}

// At returns the Rand of another step.
func (r Rand) At(step int) Rand {
	r.Step = uint32(step)
	return r
}

// Uniform returns a number in (0, 1), never 0 or 1, with 52 random bits.
func (r Rand) Uniform(position int, use Use) float64 {
	return philox.Stream(r).Uniform(position, philox.Use(use))
}

// Words returns the 128 random bits of one of 2^24 blocks.
func (r Rand) Words(position int, use Use, block int) [4]uint32 {
	return philox.Stream(r).Words(position, philox.Use(use), block)
}
