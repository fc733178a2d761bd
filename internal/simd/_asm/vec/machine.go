// Package vec describes the kernels of packages internal/simd/vec and internal/simd/screen.
//
// Most of them are written once, for a machine, and generated for AVX2, AVX-512 and NEON with the
// same operations in the same order a lane, so that results have the same bits. A sum over a row
// has 16 virtual lanes, a line, which is one, two or four registers.
package vec

import (
	"strings"

	. "github.com/mmcloughlin/avo/operand"

	"unmask/internal/simd/_asm/neon"
)

// machine is an instruction set. Registers, places in memory and constants are its own operands.
// Operations return a new register unless they say otherwise: a value is written once.
type machine interface {
	text(name, signature, doc string) // starts a function; doc is its loop, then what else to say
	pointer(name string) Op           // a parameter that is a pointer or an int
	splat(name string) Op             // a float32 parameter, in each lane
	ret(results ...Op)                // ends the function; lanes 0 are the results

	perLine() int                                                // registers of a line
	repeat(n Op, body func())                                    // n times
	line(body func(i int, at func(Op) Op))                       // for each register of a line
	lines(n Op, pointers []Op, body func(i int, at func(Op) Op)) // of n numbers
	each(n Op, pointers []Op, body func(at func(Op) Op))         // register of n numbers
	// each for bodies so short that the loop's own instructions matter
	stream(n Op, pointers []Op, body func(at func(Op) Op))
	// rows runs begin for each of rows of n numbers, a multiple of 16, and column for each of their
	// lines. places are those of a row; a stride in numbers moves on each of the first of them.
	rows(rows, n Op, places, strides []Op, begin func(), column func(line lineFunc))
	when(flag Op, name string, body func()) // if flag is not 0
	spreadNext(pointer Op) Op               // a number in each lane; moves the pointer on
	beyond(n Op) func(pointer Op) Op        // n numbers after a pointer
	advance(bytes, pointer Op)              // in place
	load(place Op) Op
	store(x, place Op)
	fetch(place Op) // asks for a cache line that will be read or written

	keep(constants ...float64) // in registers for the rest of the function, if there are enough
	k(x float64) Op            // a constant in a register that may be changed
	m(x float64) Op            // a constant that may not
	all(x float64) []Op        // a line of a constant, to be changed
	zeros() []Op

	add(a, b Op) Op
	sub(a, b Op) Op
	mul(a, b Op) Op
	div(a, b Op) Op
	max(a, b Op) Op // NaN where b is
	min(a, b Op) Op
	fma(a, b, c Op) Op  // a*b+c, rounded once; b or c may be of m
	fnma(a, b, c Op) Op // c-a*b
	fms(a, b, c Op) Op  // a*b-c
	next(p, x, c Op) Op // p*x+c, in p
	abs(x Op) Op
	minus(x Op) Op
	relu(x Op) Op
	negative(x, a, b Op) Op // a where x is negative, else b

	addTo(sum, x Op)    // sum += x
	maxTo(top, x Op)    // top = top > x ? top : x
	fmaTo(sum, a, b Op) // sum += a*b
	sum(line []Op) Op   // of lane i and i+8, then i+4, i+2, i+1; lane 0 is the result
	top(line []Op) Op

	exponents(n Op) any           // of 2^n
	scale(x Op, n any) Op         // x*2^n, rounded once
	scaleWhere(x, q Op, n any) Op // scale(q, n) where x is negative, else q
	power(t, p Op) Op             // p*2^t for t in the low bits of each lane

	word(bits uint32) Op // a constant in each lane
	right(x Op, by int) Op
	isub(a, b Op) Op
	float(x Op) Op // of int32

	leaders()
	transposed()
	// greater sets bits of a set where a > b, for a line of n numbers at a time
	greater(set, n Op, pointers []Op, compare func(at func(Op) Op) (a, b Op))
}

// lineFunc runs body for each register of a line.
type lineFunc = func(body func(i int, at func(Op) Op))

// kernels are those of a machine.
type kernels struct{ machine }

// describe is a function's comment behind its name.
func describe(doc string) string {
	loop, rest, _ := strings.Cut(doc, "\n\n")
	return strings.TrimSuffix("is\n\n\t"+strings.ReplaceAll(loop, "\n", "\n\t")+"\n\n"+rest, "\n\n")
}

// AMD64 writes the kernels of package vec for AVX2 and AVX-512.
func AMD64() {
	for _, w := range widths {
		kernels{w}.functions()
	}
	for _, w := range widths {
		kernels{w}.overRows()
	}
	for _, w := range widths {
		for _, p := range w.panels() {
			p.scores()
			p.softmax()
			p.values()
		}
	}
	kernels{widths[0]}.transpose()
	bf16()
	fixed()
}

// ARM64 writes those for NEON.
func ARM64(f *neon.File) {
	a := &arm{file: f, suffix: "NEON"}
	k := kernels{a}
	k.functions()
	k.overRows()
	for _, p := range []armPanel{{a, "Wide", 6, 4}, {a, "Narrow", 2, 8}} {
		p.scores()
		p.values()
	}
	a.softmax()
	k.transpose()
}
