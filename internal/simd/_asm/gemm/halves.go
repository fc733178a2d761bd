package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// halves is a kernel for levels of 4 bits, two in each byte of B, and one or two bits more in
// planes behind them. It is for AVX-512, which has enough registers to unpack them while it
// multiplies, on AMD's processors on ports that the products do not use; with planes, for one row.
type halves struct {
	blocks
	bits int // in planes
}

func halvesOf(name string, rows, bits int) halves {
	tile := kernel{format: int8, rows: rows, vecs: 3, wide: true}
	return halves{blocks{kernel: tile, name: name}, bits}
}

// low and high return the registers of the unpacked halves; halvesX and halvesMask number two more.
// They come after the registers of sums and results.
func (k halves) low(j int) reg.VecPhysical  { return avx.Z[24+j] }
func (k halves) high(j int) reg.VecPhysical { return avx.Z[27+j] }

const halvesX, halvesMask = 30, 31

// Of planes: the two of a record, and the high halves' sums, which have a scale of their own with
// two bits.
func (k halves) plane(i, j int) reg.VecPhysical { return avx.Z[9+3*i+j] }
func (k halves) second(j int) reg.VecPhysical   { return avx.Z[19+j] }

const halvesPlanes = 15

// halvesLine is the bytes of a line of B.
const halvesLine = 3 * 64

// multiply adds the products of b and a word of each row; the words are at m.
func (k halves) multiply(acc func(i, j int) reg.VecPhysical, m Mem, b func(j int) reg.VecPhysical) {
	x := avx.Z[halvesX]
	for i := range k.rows {
		VPBROADCASTD(m.Offset(4*i), x)
		for j := range k.vecs {
			VPDPBUSD(x, b(j), acc(i, j))
		}
	}
}

// join adds to levels the bits that stand at halvesPlanes in a plane.
func (k halves) join(level, plane func(j int) reg.VecPhysical) {
	for j := range k.vecs {
		VPTERNLOGD(Imm(0xf8), avx.Z[halvesPlanes], plane(j), level(j)) // level | plane & mask
	}
}

// record multiplies a record of 32 values, and moves a, b and planes behind it. Planes turn from
// word to word, so that the bits of each stand where they are to be.
func (k halves) record(a, b, begin, planes, left reg.Register, fetch func()) {
	acc, second := k.acc, 16*k.rows // where the words of the high halves are in a record of A
	first := func(j int) reg.VecPhysical { return k.plane(0, j) }
	other := func(j int) reg.VecPhysical { return k.plane(1, j) }
	for j := range k.vecs {
		for i := range k.bits {
			VMOVUPS(Mem{Base: planes, Disp: 64 * (3*i + j)}, k.plane(i, j))
		}
		if k.bits == 2 {
			acc, second = func(_, j int) reg.VecPhysical { return k.second(j) }, 20
			VPBROADCASTD(Mem{Base: a, Disp: second + 16}, k.second(j))
			VPROLD(Imm(4), first(j), first(j))
			VPROLD(Imm(4), other(j), other(j))
		}
	}
	k.begin(a, begin)
	MOVQ(U32(4), left)
	Label("word")
	fetch()
	fetch()
	for j := range k.vecs {
		m := Mem{Base: b, Disp: 64 * j}
		VPANDD(m, avx.Z[halvesMask], k.low(j))
		VPSRLW(Imm(4), m, k.high(j))
		VPANDD(k.high(j), avx.Z[halvesMask], k.high(j))
		if k.bits == 1 {
			VPROLD(Imm(4), first(j), other(j))
		}
	}
	switch k.bits {
	case 1:
		k.join(k.low, other)
		k.join(k.high, first)
	case 2:
		k.join(k.low, first)
		k.join(k.high, other)
	}
	for i := range k.bits {
		for j := range k.vecs {
			VPRORD(Imm(uint64(k.bits)), k.plane(i, j), k.plane(i, j))
		}
	}
	k.multiply(k.acc, Mem{Base: a}, k.low)
	k.multiply(acc, Mem{Base: a, Disp: second}, k.high)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(U32(halvesLine), b)
	avx.Again(left, "word")
	ADDQ(Imm(uint64(second)), a)
	if k.bits > 0 {
		ADDQ(U32(uint32(k.bits*halvesLine)), planes)
	}
}

// emit writes the kernel of one row count.
func (k halves) emit() {
	name := fmt.Sprintf("mulBlocks%s_%dx48", k.name, k.rows)
	start(name, BlocksSignature("scales"), fmt.Sprintf("is mulBlocksDot_%dx48 for records of 32 values, "+
		"levels as they are packed, and scales apart:\n\n\t%s", k.rows, Levels(k.bits)))
	a := Load(Param("a"), reg.RSI)
	b := reg.RDI
	mins := reg.RAX
	c := Load(Param("c"), reg.RDX)
	ldc := Load(Param("ldc"), reg.R8)
	next := Load(Param("next"), reg.R10)
	step := Load(Param("step"), reg.RBX)
	records := reg.RCX
	begin := reg.R12
	scales := reg.R14
	left := reg.R13
	planes := reg.R15
	SHLQ(Imm(2), ldc)
	avx.Constant(avx.Z[halvesMask], 0x0f0f0f0f)
	if k.bits > 0 {
		avx.Constant(avx.Z[halvesPlanes], (1<<k.bits-1)*0x10101010)
	}
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
	MOVQ(U32(uint32(4*k.rows*[]int{8, 8, 4}[k.bits])), begin)
	k.clear(nil)
	if k.bits > 0 {
		LEAQ(Mem{Base: b, Disp: 32 * halvesLine}, planes)
	}
	Label("record")
	k.record(a, b, begin, planes, left, fetch)
	Label("finish")
	k.finish(scales, nil)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(U32(halvesLine), scales)
	if k.bits == 2 { // the high halves' sums and scales
		for j := range k.vecs {
			VMOVDQA64(k.second(j), k.acc(0, j))
		}
		k.finish(scales, nil)
		ADDQ(U32(halvesLine), scales)
		DECQ(records)
	}
	avx.Again(records, "record")
	if k.bits < 2 { // Q6_K has no mins
		TESTQ(mins, mins)
		JZ(LabelRef("end"))
		k.multiplyMins(a, b, mins, begin, left, fetch)
		XORQ(mins, mins)
		MOVQ(b, scales)
		INCQ(records)
		JMP(LabelRef("finish"))
		Label("end")
	}
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
	k.multiply(k.acc, Mem{Base: a}, k.low)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(U32(halvesLine), b)
	avx.Again(left, "sum")
	avx.Again(round, "sums")
}
