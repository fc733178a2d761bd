//go:build arm64 && !purego

package screen

import (
	"unsafe"

	"unmask/internal/simd"
)

// The choice among assembly and plain Go. Rows are whole lines here.

const neon = Ops(simd.NEON)

func (o Ops) above(s *Set, at int, x []float32, least float32) {
	if o == neon {
		aboveNEON(s.from(at), &x[0], least, len(x))
	} else {
		above(s, at, x, least)
	}
}

func (o Ops) race(s *Set, at int, x []float32, words *[Size / 4][4]uint32, least float32) {
	if o == neon {
		raceNEON(s.from(at), &x[0], &words[at/4][0], least, len(x))
	} else {
		race(s, at, x, words, least)
	}
}

// from is the place of the 16 bits that begin at element at.
func (s *Set) from(at int) *uint16 { return &(*[Size / line]uint16)(unsafe.Pointer(s))[at/line] }
