// Package ceiling has loops that do nothing but what limits a kernel: the instruction that its
// products are made of, or reading memory. No kernel can be faster than they are.
package ceiling

import (
	"unmask/backend"
	"unmask/internal/simd"
)

// Loop repeats an instruction. Its name says which.
type Loop struct {
	Name string

	// Ops are the multiplications and additions of one round.
	Ops float64

	// Run runs n rounds on one thread.
	Run func(n int)
}

// LoopFor returns the loop of the instruction with which package gemm's kernels for a level
// multiply in a precision: in a format that the processor cannot multiply, the one they unpack it
// for.
func LoopFor(l simd.Level, p backend.Precision) Loop {
	f32, bf16, int8s := loops(l)
	return map[backend.Precision]Loop{backend.F32: f32, backend.BF16: bf16, backend.Int8: int8s}[p]
}

// sink keeps the compiler from leaving out loops.
var sink [8]float32

// plain is the plain Go loop: 8 independent sums.
var plain = Loop{Name: "plain Go x*y+z", Ops: 16, Run: func(n int) {
	var a, b, c, d, e, f, g, h float32
	y := float32(0.5)
	z := sink[0] // not a constant, so that the loop is not computed when it is compiled
	for range n {
		a = float32(a*y) + z
		b = float32(b*y) + z
		c = float32(c*y) + z
		d = float32(d*y) + z
		e = float32(e*y) + z
		f = float32(f*y) + z
		g = float32(g*y) + z
		h = float32(h*y) + z
	}
	sink = [8]float32{0, b, c, d, e, f, g, a + h}
}}

// ReadMemory passes over x once on one thread.
func ReadMemory(l simd.Level, x []float32) { readMemory(l, x) }

// readPlain adds up x.
func readPlain(x []float32) {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		a += x[0]
		b += x[1]
		c += x[2]
		d += x[3]
	}
	sink[1] = a + b + c + d
}
