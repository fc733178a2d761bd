// Command ceiling writes the loops of package bench/internal/ceiling: nothing but the
// instruction that a kernel lives on, with as many independent sums as hide its latency.
//
//	go run ./ceiling -out ../../../bench/internal/ceiling/ceiling_amd64.s -stubs ../../../bench/internal/ceiling/ceiling_amd64.go -pkg ceiling
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	loop("fmaYMM", "12 VFMADD231PS on 8 float32 each", ymm[:12], ymm[12:14], func(i int, acc, x, y reg.VecPhysical) {
		VFMADD231PS(x, y, acc)
	})
	loop("fmaZMM", "24 VFMADD231PS on 16 float32 each", zmm[:24], zmm[24:26], func(i int, acc, x, y reg.VecPhysical) {
		VFMADD231PS(x, y, acc)
	})
	loop("dotBF16", "24 VDPBF16PS on 32 bfloat16 each", zmm[:24], zmm[24:26], func(i int, _, _, _ reg.VecPhysical) {
		dpbf16(i)
	})
	loop("dotInt8", "24 VPDPBUSD on 64 bytes each", zmm[:24], zmm[24:26], func(i int, acc, x, y reg.VecPhysical) {
		VPDPBUSD(x, y, acc)
	})
	loop("maddInt16", "6 VPMADDWD on 16 int16 each and the VPADDD that keep the sums of the round before", ymm[:6], ymm[12:14], func(i int, acc, x, y reg.VecPhysical) {
		VPADDD(ymm[6+i], acc, acc)
		VPMADDWD(x, y, ymm[6+i])
	})
	read()
	Generate()
}

// loop repeats one step for each accumulator; the factors are 0.5 in float32 and in bfloat16.
func loop(name, doc string, accs, factors []reg.VecPhysical, step func(i int, acc, x, y reg.VecPhysical)) {
	TEXT(name, NOSPLIT, "func(n int)")
	Pragma("noescape")
	Doc(name + " does n times: " + doc + ".")
	n := Load(Param("n"), reg.RCX)
	MOVL(U32(0x3f003f00), reg.EAX)
	for _, x := range factors {
		VMOVD(reg.EAX, x.AsX())
		VPBROADCASTD(x.AsX(), x)
	}
	for _, x := range accs {
		if x.Size() == 64 {
			VPXORD(x, x, x)
		} else {
			VXORPS(x, x, x)
		}
	}
	Label("loop")
	for i, acc := range accs {
		step(i, acc, factors[0], factors[1])
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// read passes over memory with 256-bit loads, which are as wide as memory is fast.
func read() {
	TEXT("readYMM", NOSPLIT, "func(x *float32, n int)")
	Pragma("noescape")
	Doc("readYMM loads n times 256 bytes, one after the other, from x on.")
	x, n := Load(Param("x"), reg.RSI), Load(Param("n"), reg.RCX)
	Label("loop")
	for i := range 8 {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, ymm[i])
		if i%2 == 0 {
			PREFETCHT0(Mem{Base: x, Disp: 32*i + 3072})
		}
	}
	ADDQ(U32(256), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// dpbf16 is VDPBF16PS Z24, Z25, Z(acc) as bytes, because the assembler lacks it:
// EVEX.512.F3.0F38.W0 52 /r.
func dpbf16(acc int) {
	p0 := 0x02 | not(acc&8)<<7 | not(24&16)<<6 | not(24&8)<<5 | not(acc&16)<<4
	p1 := 0x06 | (^25&15)<<3
	p2 := 0x40 | not(25&16)<<3
	raw("LONG", U32(0x62|p0<<8|p1<<16|p2<<24))
	raw("WORD", U16(0x52|(0xC0|(acc&7)<<3|24&7)<<8))
}

func not(bit int) int {
	if bit == 0 {
		return 1
	}
	return 0
}

func raw(directive string, op Op) {
	Instruction(&ir.Instruction{Opcode: directive, Operands: []Op{op}})
}

var zmm = []reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12,
	reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25,
}

var ymm = []reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13,
}
