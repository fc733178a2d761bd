package gemm

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// pack is a loop that reads a vector of x and writes its lines, stride words apart.
type pack struct {
	name, doc string
	bytes     int
	setup     func()
	body      func(x Mem)
}

var packDst, packStride = reg.RDI, reg.R8

var packs = []pack{
	{"packF32", PackF32, 32, func() {}, func(x Mem) {
		VMOVUPS(x, reg.Y0)
		VMOVUPS(reg.X0, Mem{Base: packDst})
		VEXTRACTF128(Imm(1), reg.Y0, Mem{Base: packDst, Index: packStride, Scale: 1})
		LEAQ(Mem{Base: packDst, Index: packStride, Scale: 2}, packDst)
	}},
	{"packBF16", "rounds 16n values to bfloat16, 8 to a line: for i := range 16*n { " +
		"dst[i/8*stride][i%8] = bfloat16(x[i]) }.", 64, func() {}, func(x Mem) {
		VMOVUPS(x, reg.Z0)
		avx.RoundBF16(reg.Z1, reg.Z0)
		storeLines()
	}},
	{"packBF16Wide", PackBF16Wide, 32, func() {
		avx.Constant(reg.Y7, 0x7fff)
		avx.Constant(reg.Y6, 1)
		avx.Constant(reg.Y5, 0xffff0000)
	}, func(x Mem) {
		VMOVUPS(x, reg.Y0)
		VPSRLD(Imm(16), reg.Y0, reg.Y1)
		VPAND(reg.Y6, reg.Y1, reg.Y1)
		VPADDD(reg.Y7, reg.Y1, reg.Y1)
		VPADDD(reg.Y0, reg.Y1, reg.Y1)
		VCMPPS(Imm(3), reg.Y0, reg.Y0, reg.Y2) // NaN stays as it is
		VBLENDVPS(reg.Y2, reg.Y0, reg.Y1, reg.Y1)
		VPAND(reg.Y5, reg.Y1, reg.Y1)
		VPSRLD(Imm(31), reg.Y2, reg.Y2) // and one of low bits alone stays a NaN
		VPSLLD(Imm(22), reg.Y2, reg.Y2)
		VORPS(reg.Y2, reg.Y1, reg.Y1)
		storeLines()
	}},
	{"packInt8", "rounds 16n values to bytes, 16 to a line: for i := range 16*n { " +
		"dst[i/16*stride][i%16] = uint8(128 + round(x[i]*inverse)) }.", 64, func() {
		VBROADCASTSS(Load(Param("inverse"), reg.X7), reg.Z7)
		MOVL(U32(128), reg.EAX)
		VPBROADCASTD(reg.EAX, reg.Z6)
	}, func(x Mem) {
		VMULPS(x, reg.Z7, reg.Z0)
		VCVTPS2DQ(reg.Z0, reg.Z0)
		VPADDD(reg.Z6, reg.Z0, reg.Z0)
		VPMOVDB(reg.Z0, reg.X0)
		storeLine(reg.X0)
	}},
	{"packInt8Short", "is packInt8 for AVX2.", 64, func() {
		VBROADCASTSS(Load(Param("inverse"), reg.X7), reg.Y7)
		avx.Constant(reg.Y6, 128)
		avx.Constant(reg.Y5, 0xff)
		MOVL(U32(0x05010400), reg.EAX) // which words of a register make a line
		VMOVD(reg.EAX, reg.X4)
		VPMOVZXBD(reg.X4, reg.Y4)
	}, func(x Mem) {
		for i, y := range []reg.VecPhysical{reg.Y0, reg.Y1} {
			VMULPS(x.Offset(32*i), reg.Y7, y)
			VCVTPS2DQ(y, y)
			VPADDD(reg.Y6, y, y)
			VPAND(reg.Y5, y, y)
		}
		VPACKUSDW(reg.Y1, reg.Y0, reg.Y0)
		VPACKUSWB(reg.Y0, reg.Y0, reg.Y0)
		VPERMD(reg.Y0, reg.Y4, reg.Y0)
		storeLine(reg.X0)
	}},
	{"packInt8Wide", "rounds 8n values to int16, 8 to a line, of each four in the order 0, 2, 1, 3: " +
		"for i := range 8*n { dst[i/8*stride][i/4%2*4+i%2*2+i/2%2] = int16(round(x[i]*inverse)) }.", 32,
		func() {
			VBROADCASTSS(Load(Param("inverse"), reg.X7), reg.Y7)
			avx.Constant(reg.Y6, 0xffff)
		}, func(x Mem) {
			VMULPS(x, reg.Y7, reg.Y0)
			VCVTPS2DQ(reg.Y0, reg.Y0)
			VPSRLDQ(Imm(8), reg.Y0, reg.Y1)
			VPSLLD(Imm(16), reg.Y1, reg.Y1)
			VPAND(reg.Y6, reg.Y0, reg.Y0)
			VPOR(reg.Y1, reg.Y0, reg.Y0)
			VPERMQ(Imm(0x08), reg.Y0, reg.Y0)
			storeLine(reg.X0)
		}},
}

func (p pack) emit() {
	start(p.name, PackSignature, p.doc)
	Load(Param("dst"), packDst)
	x := Load(Param("x"), reg.RSI)
	Load(Param("stride"), packStride)
	n := Load(Param("n"), reg.RCX)
	SHLQ(Imm(2), packStride)
	p.setup()
	Label("loop")
	p.body(Mem{Base: x})
	ADDQ(Imm(uint64(p.bytes)), x)
	avx.Again(n, "loop")
	avx.Return()
}

// storeLines writes the two lines of Y1, storeLine one.
func storeLines() {
	storeLine(reg.X1)
	VEXTRACTF128(Imm(1), reg.Y1, reg.X1)
	storeLine(reg.X1)
}

func storeLine(x reg.VecPhysical) {
	VMOVUPS(x, Mem{Base: packDst})
	ADDQ(packStride, packDst)
}

// emitAbsMax writes the search for the largest magnitude, by which int8 formats scale.
func emitAbsMax() {
	start("absMax", "(x *float32, n int) float32", AbsMax)
	x := Load(Param("x"), reg.RSI)
	n := Load(Param("n"), reg.RCX)
	avx.Constant(reg.Y7, 0x7fffffff)
	VXORPS(reg.Y0, reg.Y0, reg.Y0)
	Label("loop")
	VPAND(Mem{Base: x}, reg.Y7, reg.Y1)
	VPMAXUD(reg.Y1, reg.Y0, reg.Y0) // the bits order as the values do, and NaN is above Inf
	ADDQ(Imm(32), x)
	avx.Again(n, "loop")
	VEXTRACTF128(Imm(1), reg.Y0, reg.X1)
	VPMAXUD(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x4e), reg.X0, reg.X1)
	VPMAXUD(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0xb1), reg.X0, reg.X1)
	VPMAXUD(reg.X1, reg.X0, reg.X0)
	Store(reg.X0, ReturnIndex(0))
	avx.Return()
}

// emitTurnWords writes the transposition of eight rows of words.
func emitTurnWords() {
	start("turnWords", "(dst, x *float32, ldd, ldx, n int)", TurnWords)
	dst := Load(Param("dst"), reg.RDI)
	x := Load(Param("x"), reg.RSI)
	ldd := Load(Param("ldd"), reg.R8)
	ldx := Load(Param("ldx"), reg.R9)
	n := Load(Param("n"), reg.RCX)
	SHLQ(Imm(2), ldd)
	SHLQ(Imm(2), ldx)
	Label("loop")
	MOVQ(x, reg.RAX)
	for i := range 8 {
		VMOVUPS(Mem{Base: reg.RAX}, avx.Y[i])
		if i < 7 {
			ADDQ(ldx, reg.RAX)
		}
	}
	// pairs of columns: 8+i has words 0, 1 and 4, 5 of both, 9+i the others
	for i := 0; i < 8; i += 2 {
		VUNPCKLPS(avx.Y[i+1], avx.Y[i], avx.Y[8+i])
		VUNPCKHPS(avx.Y[i+1], avx.Y[i], avx.Y[9+i])
	}
	for h := range 2 { // of columns 4h..4h+3
		for i := range 2 {
			a := avx.Y[8+4*h+i]
			b := avx.Y[10+4*h+i]
			VSHUFPS(Imm(0x44), b, a, avx.Y[4*h+2*i])
			VSHUFPS(Imm(0xee), b, a, avx.Y[4*h+2*i+1])
		}
	}
	for i := range 4 {
		VPERM2F128(Imm(0x20), avx.Y[4+i], avx.Y[i], avx.Y[8+i])
		VPERM2F128(Imm(0x31), avx.Y[4+i], avx.Y[i], avx.Y[12+i])
	}
	for i := range 8 {
		VMOVUPS(avx.Y[8+i], Mem{Base: dst})
		ADDQ(ldd, dst)
	}
	ADDQ(Imm(32), x)
	avx.Again(n, "loop")
	avx.Return()
}
