package gemm

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// quantiseRuns rounds rows to levels.
func quantiseRuns() {
	start("quantiseRuns", "(dst, sums, x, inverse *float32, n int)", QuantiseRuns)
	dst := Load(Param("dst"), reg.RDI)
	sums := Load(Param("sums"), reg.RDX)
	x := Load(Param("x"), reg.RSI)
	inverse := Load(Param("inverse"), reg.R8)
	n := Load(Param("n"), reg.RCX)
	order := reg.Y15
	one := reg.Y14
	MOVQ(U64(0x0703060205010400), reg.RAX)
	VMOVQ(reg.RAX, reg.X15)
	VPMOVZXBD(reg.X15, order)
	avx.Constant(one, 0x01010101)
	avx.Constant(reg.Y13, 0x00010001)
	Label("loop")
	VBROADCASTSS(Mem{Base: inverse}, reg.Y12)
	for i := range 4 {
		VMULPS(Mem{Base: x, Disp: 32 * i}, reg.Y12, avx.Y[i])
		VCVTPS2DQ(avx.Y[i], avx.Y[i])
	}
	VPACKSSDW(reg.Y1, reg.Y0, reg.Y0)
	VPACKSSDW(reg.Y3, reg.Y2, reg.Y2)
	VPACKSSWB(reg.Y2, reg.Y0, reg.Y0)
	VPERMD(reg.Y0, order, reg.Y0)
	VMOVDQU(reg.Y0, Mem{Base: dst})
	VPMADDUBSW(reg.Y0, one, reg.Y1)
	VPMADDWD(reg.Y13, reg.Y1, reg.Y1) // of every 4
	VPHADDD(reg.Y1, reg.Y1, reg.Y1)
	VPHADDD(reg.Y1, reg.Y1, reg.Y1)
	VEXTRACTI128(Imm(1), reg.Y1, reg.X2)
	VPUNPCKLDQ(reg.X2, reg.X1, reg.X1)
	VMOVQ(reg.X1, Mem{Base: sums})
	ADDQ(Imm(32), dst)
	ADDQ(Imm(8), sums)
	ADDQ(U32(128), x)
	ADDQ(Imm(4), inverse)
	avx.Again(n, "loop")
	avx.Return()
}

// unpack writes the function that makes bytes of levels of 4 bits and none, one or two more.
func unpack(name string, bits int, wide bool) {
	v := avx.Y[:]
	size := 32
	if wide {
		v, size, name = avx.Z[:], 64, name+"Wide"
	}
	start(name, UnpackSignature, Unpack(bits))
	src := Load(Param("src"), reg.RSI)
	dst := Load(Param("dst"), reg.RDI)
	high := Load(Param("high"), reg.RDX)
	width := Load(Param("width"), reg.R8)
	half := Load(Param("half"), reg.R9)
	blocks := Load(Param("blocks"), reg.RCX)
	stride := Load(Param("stride"), reg.R10)
	avx.Constant(v[15], 0x0f0f0f0f)
	avx.Constant(v[14], (1<<bits-1)*0x10101010)
	src2 := reg.R11
	dst2 := reg.R12
	other := reg.R13
	other2 := reg.RBX
	LEAQ(Mem{Base: src, Index: width, Scale: 2}, src2)
	LEAQ(Mem{Base: dst, Index: width, Scale: 2}, dst2)
	LEAQ(Mem{Base: dst, Index: half, Scale: 1}, other)
	LEAQ(Mem{Base: other, Index: width, Scale: 2}, other2)
	SUBQ(width, stride) // what is left when a block's columns are done
	pointers := []reg.Register{dst, dst2, other, other2}
	Label("block")
	MOVQ(width, reg.RAX)
	Label("columns")
	if bits > 0 {
		VMOVUPS(Mem{Base: high}, v[12])
	}
	if bits > 1 {
		VMOVUPS(Mem{Base: high, Index: width, Scale: 1}, v[13])
	}
	for p := range 4 {
		at := func(two ...reg.Register) Mem { // word p of four
			if p%2 == 0 {
				return Mem{Base: two[p/2]}
			}
			return Mem{Base: two[p/2], Index: width, Scale: 1}
		}
		unpackWord(v, bits, p, at(src, src2), at(dst, dst2), at(other, other2))
	}
	for _, r := range append([]reg.Register{src, src2}, pointers...) {
		ADDQ(U32(uint32(size)), r)
	}
	if bits > 0 {
		ADDQ(U32(uint32(size)), high)
	}
	SUBQ(U32(uint32(size)), reg.RAX)
	JNZ(LabelRef("columns"))
	for _, r := range pointers {
		ADDQ(stride, r)
	}
	// src2 is two words and a width after the block's beginning
	LEAQ(Mem{Base: src2, Index: width, Scale: 1}, src)
	LEAQ(Mem{Base: src, Index: width, Scale: 2}, src2)
	if bits > 1 {
		ADDQ(width, high)
	}
	avx.Again(blocks, "block")
	avx.Return()
}

// unpackWord makes words p and p+4 of the bytes at m. Registers 15 and 14 mask the low bits and the
// high ones.
func unpackWord(v []reg.VecPhysical, bits, p int, m, low, high Mem) {
	x := v[2*(p%2)]
	y := v[2*(p%2)+1]
	VMOVUPS(m, y)
	and(y, v[15], x)
	VPSRLW(Imm(4), y, y)
	and(y, v[15], y)
	if bits > 0 {
		addBits(v, bits, p, x, v[4+2*(p%2)])
		addBits(v, bits, p+4, y, v[5+2*(p%2)])
	}
	VMOVUPS(x, low)
	VMOVUPS(y, high)
}

// and is dst = x & y in registers of either width.
func and(x, y, dst reg.VecPhysical) {
	if dst.Size() == 64 {
		VPANDD(x, y, dst)
	} else {
		VPAND(x, y, dst)
	}
}

// addBits puts the high bits of word w, of one or two planes in registers 12 and 13, above x's 4.
func addBits(v []reg.VecPhysical, bits, w int, x, t reg.VecPhysical) {
	plane := v[12]
	by := 4 - bits*(w*bits%8/bits)
	if bits*w >= 8 {
		plane = v[13]
	}
	switch {
	case by > 0:
		VPSLLW(Imm(uint64(by)), plane, t)
		plane = t
	case by < 0:
		VPSRLW(Imm(uint64(-by)), plane, t)
		plane = t
	}
	if t.Size() == 64 {
		VPTERNLOGD(U8(0xf8), plane, v[14], x) // x | plane&mask
		return
	}
	VPAND(plane, v[14], t)
	VPOR(t, x, x)
}

// expandScales makes float32 of scales that are small integers.
func expandScales(wide bool) {
	name := "expandScales"
	v := avx.Y[:]
	lanes := 8
	if wide {
		name = "expandScalesWide"
		v = avx.Z[:]
		lanes = 16
	}
	start(name, ExpandSignature, ExpandScales)
	dst := Load(Param("dst"), reg.RDI)
	d := Load(Param("d"), reg.RDX)
	levels := Load(Param("levels"), reg.RSI)
	columns := Load(Param("columns"), reg.R8)
	rows := Load(Param("rows"), reg.RCX)
	stride := Load(Param("stride"), reg.R10)
	Label("row")
	XORQ(reg.RAX, reg.RAX)
	Label("columns")
	VPMOVSXBD(Mem{Base: levels, Index: reg.RAX, Scale: 1}, v[0])
	VCVTDQ2PS(v[0], v[0])
	VMULPS(Mem{Base: d, Index: reg.RAX, Scale: 4}, v[0], v[0])
	VMOVUPS(v[0], Mem{Base: dst, Index: reg.RAX, Scale: 4})
	ADDQ(Imm(uint64(lanes)), reg.RAX)
	CMPQ(reg.RAX, columns)
	JNE(LabelRef("columns"))
	ADDQ(stride, dst)
	ADDQ(columns, levels)
	avx.Again(rows, "row")
	avx.Return()
}
