package gemm

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// store writes finished tiles.
func store() {
	TEXT("storeRows", NOSPLIT, "func(dst, tile, bias *float32, ldd, ldt, rows, cols, add int)")
	Pragma("noescape")
	Doc("storeRows is, for i of rows and j of 16*cols columns:", "",
		"\ty := tile[i][j] + bias[j]",
		"\tif add { y += dst[i][j] }",
		"\tdst[i][j] = y")
	dst := Load(Param("dst"), reg.RDI)
	tile := Load(Param("tile"), reg.RSI)
	bias := Load(Param("bias"), reg.RDX)
	ldd := Load(Param("ldd"), reg.R8)
	ldt := Load(Param("ldt"), reg.R9)
	rows := Load(Param("rows"), reg.RCX)
	cols := Load(Param("cols"), reg.R10)
	add := Load(Param("add"), reg.R11)
	SHLQ(Imm(2), ldd)
	SHLQ(Imm(2), ldt)
	SHLQ(Imm(6), cols)
	at := func(base reg.Register, j int) Mem {
		return Mem{Base: base, Index: reg.RAX, Scale: 1, Disp: 32 * j}
	}
	Label("row")
	XORQ(reg.RAX, reg.RAX)
	Label("column")
	for j := range 2 {
		y := avx.Y[j]
		VMOVUPS(at(tile, j), y)
		VADDPS(at(bias, j), y, y)
	}
	TESTQ(add, add)
	JZ(LabelRef("write"))
	for j := range 2 {
		VADDPS(at(dst, j), avx.Y[j], avx.Y[j])
	}
	Label("write")
	for j := range 2 {
		VMOVUPS(avx.Y[j], at(dst, j))
	}
	ADDQ(Imm(64), reg.RAX)
	CMPQ(reg.RAX, cols)
	JNE(LabelRef("column"))
	ADDQ(ldd, dst)
	ADDQ(ldt, tile)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// scale turns sums of int8 products into what they stand for.
func scale() {
	TEXT("scaleRows", NOSPLIT, "func(tile, row, col, offset *float32, ldt, rows, cols int)")
	Pragma("noescape")
	Doc("scaleRows is, for i of rows and j of 16*cols columns, where tile and offset hold int32:", "",
		"\ttile[i][j] = float32(tile[i][j]-offset[j]) * row[i] * col[j]")
	tile := Load(Param("tile"), reg.RDI)
	row := Load(Param("row"), reg.RSI)
	col := Load(Param("col"), reg.RDX)
	offset := Load(Param("offset"), reg.R11)
	ldt := Load(Param("ldt"), reg.R8)
	rows := Load(Param("rows"), reg.RCX)
	cols := Load(Param("cols"), reg.R10)
	SHLQ(Imm(2), ldt)
	SHLQ(Imm(6), cols)
	at := func(base reg.Register, j int) Mem {
		return Mem{Base: base, Index: reg.RAX, Scale: 1, Disp: 32 * j}
	}
	Label("row")
	VBROADCASTSS(Mem{Base: row}, reg.Y7)
	XORQ(reg.RAX, reg.RAX)
	Label("column")
	for j := range 2 {
		y := avx.Y[j]
		VMOVUPS(at(tile, j), y)
		VPSUBD(at(offset, j), y, y)
		VCVTDQ2PS(y, y)
		VMULPS(reg.Y7, y, y)
		VMULPS(at(col, j), y, y)
		VMOVUPS(y, at(tile, j))
	}
	ADDQ(Imm(64), reg.RAX)
	CMPQ(reg.RAX, cols)
	JNE(LabelRef("column"))
	ADDQ(Imm(4), row)
	ADDQ(ldt, tile)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
