// Command screen writes the assembly of package internal/simd/screen:
//
//	go run ./screen -out ../screen/screen_amd64.s -stubs ../screen/screen_amd64.go -pkg screen
package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

func main() {
	ConstraintExpr("amd64,!purego")
	for _, w := range []width{{"AVX2", 8}, {"AVX512", 16}} {
		w.above()
		w.race()
	}
	Generate()
}

// width is one instruction set's vector registers.
type width struct {
	suffix string
	lanes  int
}

// above generates the comparison with one number.
func (w width) above() {
	w.text("above", "(set *uint16, x *float32, least float32, n int)", "x[i] > least")
	set, x, least, n := pointer("set"), pointer("x"), w.splat("least"), pointer("n")
	w.each(set, n, []reg.Register{x}, func(i int) (a, b Op) { return w.at(x, i), least })
}

// race generates the comparison with a number for each element.
func (w width) race() {
	w.text("race", "(set *uint16, x *float32, words *uint32, least float32, n int)",
		"x[i] > Luck(words[i]) + least")
	set, x, words, least, n := pointer("set"), pointer("x"), pointer("words"), w.splat("least"),
		pointer("n")
	one, unit, slope := w.constant("one", 1<<24), w.constant("unit", 151<<23),
		w.constant("slope", math.Float32bits(math.Ln2/(1<<23)))
	w.each(set, n, []reg.Register{x, words}, func(i int) (a, b Op) {
		t := w.reg()
		w.move(w.at(words, i), t)
		VPSRLD(U8(8), t, t)
		VPSUBD(t, one, t)
		VCVTDQ2PS(t, t)
		VPSUBD(unit, t, t)
		VCVTDQ2PS(t, t)
		VMULPS(slope, t, t)
		VADDPS(least, t, t)
		return w.at(x, i), t
	})
}

func (w width) text(name, signature, bit string) {
	TEXT(name+w.suffix, NOSPLIT, "func"+signature)
	Doc(name+w.suffix+" is", "", "\tfor i := range n { bit i of set = "+bit+" }", "",
		"n is a multiple of 16 above 0. Nothing compares with NaN.")
	Pragma("noescape")
}

// each sets 16 bits of set a turn: b < a, ordered and quiet (predicate 17).
func (w width) each(set, n reg.Register, from []reg.Register, compare func(i int) (a, b Op)) {
	Label("turn")
	if w.lanes == 16 {
		a, b := compare(0)
		mask := K()
		VCMPPS(U8(17), a, b.(reg.VecVirtual), mask)
		KMOVW(mask, Mem{Base: set})
	} else {
		var half [2]reg.GPVirtual
		for i := range half {
			a, b := compare(i)
			mask := w.reg()
			half[i] = GP32()
			VCMPPS(U8(17), a, b.(reg.VecVirtual), mask)
			VMOVMSKPS(mask, half[i])
		}
		SHLL(U8(8), half[1])
		ORL(half[0], half[1])
		MOVW(half[1].As16(), Mem{Base: set})
	}
	for _, p := range from {
		ADDQ(U8(64), p)
	}
	ADDQ(U8(2), set)
	SUBQ(U8(16), n)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}

func (w width) reg() reg.VecVirtual { return avx.Register(4 * w.lanes) }

func (w width) move(m Mem, r reg.VecVirtual) {
	if w.lanes == 16 {
		VMOVDQU32(m, r)
	} else {
		VMOVDQU(m, r)
	}
}

// at is register i of a line of 16.
func (w width) at(p reg.Register, i int) Mem { return Mem{Base: p, Disp: 4 * w.lanes * i} }

func (w width) splat(param string) reg.VecVirtual { return avx.Splat(param, 4*w.lanes) }

var constants = map[string]Mem{}

func (w width) constant(name string, bits uint32) reg.VecVirtual {
	m, ok := constants[name]
	if !ok {
		m = GLOBL(name, attr.RODATA|attr.NOPTR)
		DATA(0, U32(bits))
		constants[name] = m
	}
	r := w.reg()
	VPBROADCASTD(m, r)
	return r
}

var pointer = avx.Pointer
