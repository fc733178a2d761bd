// Package screen finds the few elements of a row that can matter, such as the outcomes that may
// win a race of exponential times, so that the work on each of them is done for those alone. All
// instruction sets find the same ones.
package screen

import (
	"iter"
	"math"
	"math/bits"

	"unmask/internal/simd"
)

// Ops are the kernels of an instruction set, screen.Ops(level.ISA).
type Ops simd.ISA

// Size is the most elements that are screened at once.
const Size = 1024

const line = 16 // elements that a kernel takes at a time

// Set is a subset of Size elements, a bit for each.
type Set [Size / 64]uint64

// All returns the elements of the set, ascending.
func (s *Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(64*i + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// Above sets s to the elements of x that are larger than least; NaN is not.
func (o Ops) Above(s *Set, x []float32, least float32) {
	*s = Set{}
	whole := len(x) / line * line
	if whole > 0 {
		o.above(s, 0, x[:whole], least)
	}
	if whole < len(x) {
		last := padded(x[whole:])
		o.above(s, whole, last[:], least)
	}
}

// Race sets s to the elements of x that are larger than the sum of least and the luck of their
// word.
func (o Ops) Race(s *Set, x []float32, words *[Size / 4][4]uint32, least float32) {
	*s = Set{}
	whole := len(x) / line * line
	if whole > 0 {
		o.race(s, 0, x[:whole], words, least)
	}
	if whole < len(x) {
		last := padded(x[whole:])
		o.race(s, whole, last[:], words, least)
	}
}

// Luck returns log(1-u), or up to 0.06 less, for the number u of 24 bits that a random word makes:
// with f = (1-u)*2^24, log2 of f is at least its exponent plus its mantissa. So a bound with Luck
// excludes no element that could win, and costs no logarithm.
func Luck(word uint32) float32 {
	f := math.Float32bits(float32(1<<24 - word>>8))
	return float32(float32(int32(f-151<<23)) * (math.Ln2 / (1 << 23)))
}

// padded returns the last part of a row, padded with -Inf, which is above nothing.
func padded(x []float32) (p [line]float32) {
	for i := copy(p[:], x); i < line; i++ {
		p[i] = float32(math.Inf(-1))
	}
	return p
}

// The kernels in plain Go. The first of x is element first of a row, a multiple of 16.

func above(s *Set, first int, x []float32, least float32) {
	for i, v := range x {
		if v > least {
			s[(first+i)/64] |= 1 << ((first + i) % 64)
		}
	}
}

func race(s *Set, first int, x []float32, words *[Size / 4][4]uint32, least float32) {
	for i, v := range x {
		if v > Luck(words[(first+i)/4][(first+i)%4])+least {
			s[(first+i)/64] |= 1 << ((first + i) % 64)
		}
	}
}
