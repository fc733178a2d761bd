package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// halves is a kernel for levels of 4 bits, two in each byte of B. It is for AVX-512, which has
// enough registers to unpack them while it multiplies, on ports that the products do not use.
type halves struct{ blocks }

func halvesOf(rows int) halves {
	return halves{blocks{kernel: kernel{format: int8, rows: rows, vecs: 3, wide: true}}}
}

// low and high return the registers of the unpacked halves; halvesX and halvesMask number two more.
// They come after the registers of sums and results.
func (k halves) low(j int) reg.VecPhysical  { return avx.Z[24+j] }
func (k halves) high(j int) reg.VecPhysical { return avx.Z[27+j] }

const halvesX, halvesMask = 30, 31

// halvesLine is the bytes of a line of B.
const halvesLine = 3 * 64

// multiply adds the products of b and a word of each row; the words are at m.
func (k halves) multiply(m Mem, b func(j int) reg.VecPhysical) {
	x := avx.Z[halvesX]
	for i := range k.rows {
		VPBROADCASTD(m.Offset(4*i), x)
		for j := range k.vecs {
			VPDPBUSD(x, b(j), k.acc(i, j))
		}
	}
}

// emit writes the kernel of one row count.
func (k halves) emit() {
	name := fmt.Sprintf("mulBlocksHalves_%dx48", k.rows)
	start(name, BlocksSignature("scales"), fmt.Sprintf("is mulBlocksDot_%dx48 for records of 8 words, "+
		"of 4 bits, and scales apart:\n\n\t%s", k.rows, Levels(0)))
	a, b, mins, c := Load(Param("a"), reg.RSI), reg.RDI, reg.RAX, Load(Param("c"), reg.RDX)
	ldc := Load(Param("ldc"), reg.R8)
	next := Load(Param("next"), reg.R10)
	step := Load(Param("step"), reg.RBX)
	records, begin, scales, left := reg.RCX, reg.R12, reg.R14, reg.R13
	SHLQ(Imm(2), ldc)
	mask := avx.Z[halvesMask]
	avx.Constant(mask, 0x0f0f0f0f)
	fetch := func() {
		for range k.fetches() {
			PREFETCHT0(Mem{Base: next})
			ADDQ(step, next)
		}
	}
	Label("panel")
	Load(Param("b"), b)
	Load(Param("mins"), mins)
	Load(Param("records"), records)
	Load(Param("scales"), scales)
	MOVQ(U32(uint32(8*4*k.rows)), begin)
	k.clear(nil)
	Label("record")
	k.begin(a, begin)
	MOVQ(U32(4), left)
	Label("word")
	fetch()
	fetch()
	for j := range k.vecs {
		m := Mem{Base: b, Disp: 64 * j}
		VPANDD(m, mask, k.low(j))
		VPSRLW(Imm(4), m, k.high(j))
		VPANDD(k.high(j), mask, k.high(j))
	}
	k.multiply(Mem{Base: a}, k.low)
	k.multiply(Mem{Base: a, Disp: 16 * k.rows}, k.high)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(U32(halvesLine), b)
	avx.Again(left, "word")
	ADDQ(Imm(uint64(16*k.rows)), a)
	Label("finish")
	k.finish(scales, nil)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(U32(halvesLine), scales)
	avx.Again(records, "record")
	TESTQ(mins, mins)
	JZ(LabelRef("end"))
	k.multiplyMins(a, b, mins, begin, left, fetch)
	XORQ(mins, mins)
	MOVQ(b, scales)
	INCQ(records)
	JMP(LabelRef("finish"))
	Label("end")
	k.add(a, c, ldc)
	nextPanel(a)
}

// multiplyMins sets the sums to the products of A's sums and mins: those of A's high bytes, shifted
// by 6 bits, and those of its low bytes. round counts the two, left the words of each.
func (k halves) multiplyMins(a, b, mins, round, left reg.Register, fetch func()) {
	k.each(func(i, j int) { avx.Zero(k.acc(i, j)) })
	MOVQ(U32(2), round) // for high bytes and low ones
	Label("sums")
	MOVQ(mins, b)
	MOVQ(U32(2), left)
	k.each(func(i, j int) { VPSLLD(Imm(6), k.acc(i, j), k.acc(i, j)) })
	Label("sum")
	fetch()
	for j := range k.vecs {
		VMOVUPS(Mem{Base: b, Disp: 64 * j}, k.low(j))
	}
	k.multiply(Mem{Base: a}, k.low)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(U32(halvesLine), b)
	avx.Again(left, "sum")
	avx.Again(round, "sums")
}
