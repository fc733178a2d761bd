package samplers

import "unmask/internal/philox"

// Use tells apart the random numbers at one position of one step.
type Use uint32

// The uses of this package and of the loop.
const (
	ForOrder   = Use(philox.Order)   // noise that ranks positions
	ForToken   = Use(philox.Token)   // the token of a position
	ForReorder = Use(philox.Reorder) // a second noise for ranking
	ForClose   = Use(philox.Remask)  // which open positions close
	ForSetup   = Use(philox.Setup)   // before the first step
)

// ForRule to LastUse are free for rules of other modules: ForRule, ForRule+1 and so on are
// independent of each other and of all uses above.
const (
	ForRule Use = 16
	LastUse Use = 255
)

// Rand is the random numbers of one sequence at one step: a number depends on the seed, the
// sequence, the step, the position and the use alone, never on what was drawn before. The zero
// Rand is valid. It is Philox4x32-10 (Salmon et al. 2011).
type Rand struct {
	Seed     uint64
	Sequence uint32 // its index in the run, not in the batch
	Step     uint32
}

// At returns the numbers of another step.
func (r Rand) At(step int) Rand {
	r.Step = uint32(step)
	return r
}

// Uniform returns a number in (0, 1), never 0 or 1, with 52 random bits.
func (r Rand) Uniform(position int, use Use) float64 {
	return philox.Stream(r).Uniform(position, philox.Use(use))
}

// Words returns 128 random bits, those of one of 2^24 blocks.
func (r Rand) Words(position int, use Use, block int) [4]uint32 {
	return philox.Stream(r).Words(position, philox.Use(use), block)
}
