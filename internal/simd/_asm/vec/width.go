package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// width is one instruction set's vector registers. Every kernel is described once and generated for
// both widths, with the same operations in the same order a lane, so results have the same bits.
type width struct {
	suffix string
	lanes  int
}

var widths = []width{{"AVX2", 8}, {"AVX512", 16}}

func (w width) bytes() int { return 4 * w.lanes }

// perLine is the registers that 16 virtual lanes take.
func (w width) perLine() int { return 16 / w.lanes }

func (w width) reg() reg.VecVirtual { return avx.Register(w.bytes()) }

func (w width) regs(n int) []reg.VecVirtual {
	r := make([]reg.VecVirtual, n)
	for i := range r {
		r[i] = w.reg()
	}
	return r
}

// text starts a function named for the width.
func (w width) text(name, signature, doc string) {
	TEXT(name+w.suffix, NOSPLIT, "func"+signature)
	kept = map[uint32]reg.VecVirtual{}
	Doc(strings.Split(name+w.suffix+" is\n\n\t"+strings.ReplaceAll(doc, "\n", "\n\t"), "\n")...)
	Pragma("noescape")
}

func (w width) load(m Mem) reg.VecVirtual {
	r := w.reg()
	VMOVUPS(m, r)
	return r
}

// splat broadcasts a float32 parameter.
func (w width) splat(param string) reg.VecVirtual { return avx.Splat(param, w.bytes()) }

var constants = map[uint32]Mem{}

// constant is the place of a constant given by its bits, 8 times over: an operand of AVX2, or of a
// broadcast.
func constant(u uint32) Mem {
	m, ok := constants[u]
	if !ok {
		m = GLOBL(fmt.Sprintf("c%08x", u), attr.RODATA|attr.NOPTR)
		for i := range 4 {
			DATA(8*i, U64(uint64(u)<<32|uint64(u)))
		}
		constants[u] = m
	}
	return m
}

// kept are the constants that the function at hand has in registers.
var kept map[uint32]reg.VecVirtual

// keep loads constants into registers for the rest of the function, where there are enough: with
// AVX-512. In memory they would cost a load each time, of two cache lines where the linker puts
// them across.
func (w width) keep(constants ...float64) {
	for _, f := range constants {
		if u := math.Float32bits(float32(f)); w.lanes == 16 && kept[u] == nil {
			kept[u] = w.spread(u)
		}
	}
}

// spread is a constant in a new register.
func (w width) spread(u uint32) reg.VecVirtual {
	r := w.reg()
	VBROADCASTSS(constant(u), r)
	return r
}

// bits and m are constants as operands that are not to be written.
func (w width) bits(u uint32) Op {
	if r, ok := kept[u]; ok {
		return r
	}
	if w.lanes == 16 {
		return w.spread(u)
	}
	return constant(u)
}

func (w width) m(f float64) Op { return w.bits(math.Float32bits(float32(f))) }

// k is a constant in a new register.
func (w width) k(f float64) reg.VecVirtual {
	if r, ok := kept[math.Float32bits(float32(f))]; ok {
		return w.copy(r)
	}
	return w.spread(math.Float32bits(float32(f)))
}

func (w width) zero() reg.VecVirtual {
	r := w.reg()
	w.xor(r, r, r)
	return r
}

func (w width) xor(a, b, dst Op) {
	if w.lanes == 16 {
		VPXORD(a, b, dst)
	} else {
		VXORPS(a, b, dst)
	}
}

func (w width) and(a, b, dst Op) {
	if w.lanes == 16 {
		VPANDD(a, b, dst)
	} else {
		VANDPS(a, b, dst)
	}
}

// The operations below return new registers: a value is written once.

func (w width) add(a, b Op) reg.VecVirtual { r := w.reg(); VADDPS(b, a, r); return r }
func (w width) sub(a, b Op) reg.VecVirtual { r := w.reg(); VSUBPS(b, a, r); return r }
func (w width) mul(a, b Op) reg.VecVirtual { r := w.reg(); VMULPS(b, a, r); return r }
func (w width) div(a, b Op) reg.VecVirtual { r := w.reg(); VDIVPS(b, a, r); return r }

// max and min return b where one of both is NaN.
func (w width) max(a, b Op) reg.VecVirtual { r := w.reg(); VMAXPS(b, a, r); return r }
func (w width) min(a, b Op) reg.VecVirtual { r := w.reg(); VMINPS(b, a, r); return r }

func (w width) copy(a Op) reg.VecVirtual {
	r := w.reg()
	if m, ok := a.(Mem); ok {
		VMOVUPS(m, r)
	} else {
		VMOVAPS(a, r)
	}
	return r
}

// fma is a*b+c, fnma -a*b+c, fms a*b-c, each rounded once. b or c may be a constant in memory.

func (w width) fma(a, b, c Op) reg.VecVirtual {
	if _, ok := b.(Mem); ok {
		r := w.copy(c)
		VFMADD231PS(b, a, r)
		return r
	}
	r := w.copy(a)
	VFMADD213PS(c, b, r)
	return r
}

func (w width) fnma(a, b, c Op) reg.VecVirtual {
	r := w.copy(c)
	VFNMADD231PS(b, a, r)
	return r
}

func (w width) fms(a, b, c Op) reg.VecVirtual {
	r := w.copy(a)
	VFMSUB132PS(b, c, r)
	return r
}

// horner evaluates a polynomial, the highest coefficient first.
func (w width) horner(x reg.VecVirtual, coefficients ...float64) reg.VecVirtual {
	p := w.k(coefficients[0])
	for _, c := range coefficients[1:] {
		VFMADD213PS(w.m(c), x, p)
	}
	return p
}

// negative picks a where x is negative, else b.
func (w width) negative(x, a, b reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	if w.lanes == 16 {
		m := K()
		VPMOVD2M(x, m)
		VMOVAPS(b, r)
		VMOVAPS(a, m, r)
	} else {
		VBLENDVPS(x, a, b, r)
	}
	return r
}

// reduce folds 16 virtual lanes, held in one or two registers, by halves: lane i with lane
// i+8, then i+4, i+2, i+1. It returns lane 0.
func (w width) reduce(acc []reg.VecVirtual, op func(a, b, dst Op)) reg.VecVirtual {
	y := YMM()
	if w.lanes == 16 {
		high := YMM()
		VEXTRACTF64X4(U8(1), acc[0], high)
		op(high, acc[0].AsY(), y)
	} else {
		op(acc[1], acc[0], y)
	}
	x, t := XMM(), XMM()
	VEXTRACTF128(U8(1), y, x)
	op(x, y.AsX(), x)
	VMOVHLPS(x, x, t)
	op(t, x, x)
	VMOVSHDUP(x, t)
	op(t, x, x)
	return x
}

func addPS(a, b, dst Op) { VADDPS(a, b, dst) }
func maxPS(a, b, dst Op) { VMAXPS(a, b, dst) }

// ret stores results and returns.
func ret(results ...reg.VecVirtual) {
	for i, r := range results {
		m, err := ReturnIndex(i).Resolve()
		if err != nil {
			panic(err)
		}
		VMOVSS(r, m.Addr)
	}
	VZEROUPPER()
	RET()
}

// loop runs body n/2^shift times and advances each pointer by step bytes.
func loop(n reg.Register, shift, step int, pointers []reg.Register, body func()) {
	if shift > 0 {
		SHRQ(U8(shift), n)
	} else {
		TESTQ(n, n)
	}
	JZ(LabelRef("done"))
	Label("loop")
	body()
	for _, p := range pointers {
		ADDQ(U8(step), p)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	Label("done")
}

// each runs body once for each register of n elements.
func (w width) each(n reg.Register, pointers []reg.Register, body func()) {
	shift := 3
	if w.lanes == 16 {
		shift = 4
	}
	loop(n, shift, w.bytes(), pointers, body)
}

// lines runs body once for each 16 of n elements; i is the register of the 16 virtual lanes and m
// its place from a pointer.
func (w width) lines(n reg.Register, pointers []reg.Register,
	body func(i int, at func(reg.Register) Mem)) {
	loop(n, 4, 64, pointers, func() {
		for i := range w.perLine() {
			body(i, func(p reg.Register) Mem { return Mem{Base: p, Disp: i * w.bytes()} })
		}
	})
}

var pointer = avx.Pointer
