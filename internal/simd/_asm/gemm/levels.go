package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// levels is a kernel of AVX2 that takes levels as they are packed: two of 4 bits in each byte and,
// in planes behind them, one or two bits more. Products of 4 bits and 127 are added in 16 bits for
// all of a record, and so are those of the planes, which count 16 times as much.
type levels struct {
	kernel
	name string
	bits int // in planes
}

func levelsOf(name string, rows, bits int) levels {
	return levels{kernel{rows: rows, vecs: 2}, name, bits}
}

const levelsLine = 64 // bytes of a word of 16 columns

// Constants, a word of A, and products that are not yet added.
var levelsMask, levelsOnes, levelsX, levelsT = reg.Y15, reg.Y14, reg.Y13, reg.Y12

// start writes what all kernels begin with. fetched says how many lines they fetch.
func (k levels) start(fetched string) (a, mins, c reg.Register) {
	start(fmt.Sprintf("mulBlocks%s_%dx16", k.name, k.rows), BlocksSignature("scales"),
		fmt.Sprintf("is mulBlocksLow_4x16 for %d rows, levels as they are packed, and scales apart:"+
			"\n\n\t%s\n\nIt fetches %s.", k.rows, Levels(k.bits), fetched))
	avx.Constant(levelsMask, 0x0f0f0f0f)
	VPCMPEQW(levelsOnes, levelsOnes, levelsOnes)
	VPSRLW(Imm(15), levelsOnes, levelsOnes)
	Load(Param("next"), reg.R10)
	Load(Param("step"), reg.RBX)
	return Load(Param("a"), reg.RSI), Load(Param("mins"), reg.R15), Load(Param("c"), reg.RDX)
}

func fetchAhead() {
	PREFETCHT0(Mem{Base: reg.R10})
	ADDQ(reg.RBX, reg.R10)
}

// split takes the bytes at m apart.
func split(m Mem, low, high reg.VecPhysical) {
	VMOVDQU(m, high)
	VPAND(high, levelsMask, low)
	VPSRLW(Imm(4), high, high)
	VPAND(high, levelsMask, high)
}

// addTo adds the products of the levels y and the word levelsX to sum.
func addTo(sum, y reg.VecPhysical) {
	VPMADDUBSW(levelsX, y, levelsT)
	VPADDW(levelsT, sum, sum)
}

// emitTile writes the kernel of rows of levels without planes. Results of a group are on the stack.
func (k levels) emitTile() {
	a, mins, c := k.start("5 lines a record")
	ldc := Load(Param("ldc"), reg.R8)
	b := reg.RDI
	scales := reg.R9
	records := reg.RCX
	left := reg.R13
	tile := reg.R14
	LEAQ(AllocLocal(64*k.rows+32).Offset(31), tile)
	ANDQ(I32(-32), tile)
	SHLQ(Imm(2), ldc)
	Label("panel")
	Load(Param("b"), b)
	Load(Param("scales"), scales)
	Load(Param("records"), records)
	VPXOR(reg.Y0, reg.Y0, reg.Y0)
	k.each(func(i, j int) { VMOVDQU(reg.Y0, k.part(tile, i, j)) })
	Label("record")
	k.each(func(i, j int) { VPXOR(k.acc(i, j), k.acc(i, j), k.acc(i, j)) })
	MOVQ(U32(4), left)
	Label("word")
	k.tileWord(a, b)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(Imm(levelsLine), b)
	avx.Again(left, "word")
	k.tileRecord(a, scales, tile)
	ADDQ(Imm(uint64(20*k.rows)), a)
	ADDQ(Imm(levelsLine), scales)
	avx.Again(records, "record")
	k.addTile(a, mins, c, ldc, tile, left)
	nextPanel(a)
}

// tileWord multiplies a word of both halves.
func (k levels) tileWord(a, b reg.Register) {
	fetchAhead()
	low := avx.Y[8:10]
	high := avx.Y[10:12]
	for j := range 2 {
		split(Mem{Base: b, Disp: 32 * j}, low[j], high[j])
	}
	for half, y := range [][]reg.VecPhysical{low, high} {
		for i := range k.rows {
			VPBROADCASTD(Mem{Base: a, Disp: 4 * (4*half*k.rows + i)}, levelsX)
			addTo(k.acc(i, 0), y[0])
			addTo(k.acc(i, 1), y[1])
		}
	}
}

// tileRecord adds a record's sums to the tile.
func (k levels) tileRecord(a, scales, tile reg.Register) {
	fetchAhead()
	scale := avx.Y[8:10]
	for j := range 2 {
		VMOVUPS(Mem{Base: scales, Disp: 32 * j}, scale[j])
	}
	k.each(func(i, j int) {
		acc := k.acc(i, j)
		if j == 0 {
			VPBROADCASTD(Mem{Base: a, Disp: 4 * (4*k.rows + i)}, levelsX)
		}
		VPMADDWD(levelsOnes, acc, acc)
		VPADDD(levelsX, acc, acc)
		VCVTDQ2PS(acc, acc)
		VFMADD213PS(k.part(tile, i, j), scale[j], acc)
		VMOVUPS(acc, k.part(tile, i, j))
	})
}

// addTile adds the tile to c, and moves a behind the panel's scales.
func (k levels) addTile(a, mins, c, ldc, tile, left reg.Register) {
	scale := reg.R11 // of a row: behind the sums if there are any
	MOVQ(U32(uint32(k.rows)), left)
	MOVQ(a, scale)
	TESTQ(mins, mins)
	JZ(LabelRef("row"))
	ADDQ(Imm(uint64(20*k.rows)), scale)
	Label("row")
	for j := range 2 {
		VMOVUPS(k.part(tile, 0, j), avx.Y[j])
	}
	TESTQ(mins, mins)
	JZ(LabelRef("scale"))
	for j := range 2 {
		k.addMins(a, Mem{Base: mins, Disp: 32 * j}, avx.Y[j])
	}
	Label("scale")
	for j := range 2 {
		scaled(scale, Mem{Base: c, Disp: 32 * j}, avx.Y[j])
	}
	for _, r := range []reg.Register{a, scale} {
		ADDQ(Imm(4), r)
	}
	ADDQ(Imm(64), tile)
	ADDQ(ldc, c)
	avx.Again(left, "row")
	SUBQ(U32(uint32(64*k.rows)), tile)
	MOVQ(scale, a)
}

// scaled adds p times a row's scale to c.
func scaled(scale reg.Register, c Mem, p reg.VecPhysical) {
	VBROADCASTSS(Mem{Base: scale}, levelsX)
	VFMADD213PS(c, levelsX, p)
	VMOVUPS(p, c)
}

// addMins adds to p the products of a row's sums at a with the mins at m: two words of each column,
// then their scales.
func (k levels) addMins(a reg.Register, m Mem, p reg.VecPhysical) {
	sum := avx.Y[4:6]
	y := avx.Y[6:8]
	for half, s := range sum { // of high bytes and of low ones
		VPXOR(s, s, s)
		for w := range y {
			VMOVDQU(m.Offset(levelsLine*w), y[w])
			VPBROADCASTD(Mem{Base: a, Disp: 4 * (2*half + w) * k.rows}, levelsX)
			addTo(s, y[w])
		}
		VPMADDWD(levelsOnes, s, s)
	}
	VPSLLD(Imm(6), sum[0], sum[0])
	VPADDD(sum[1], sum[0], sum[0])
	VCVTDQ2PS(sum[0], sum[0])
	VFMADD231PS(m.Offset(2*levelsLine), sum[0], p)
}

// emitRow writes the kernel of one row of levels with planes. It takes half of the columns after
// the other.
func (k levels) emitRow() {
	begin, mins, c := k.start("8 lines for 32 values")
	b := Load(Param("b"), reg.RCX)
	scales := Load(Param("scales"), reg.R14)
	a := reg.R8
	at := reg.R9
	scale := reg.R11
	left := reg.R12
	halves := reg.R13
	planes := reg.RAX
	word := reg.RDI
	p := reg.Y0
	high := avx.Y[8:10]
	avx.Constant(rowMask, (1<<k.bits-1)*0x01010101)
	MOVQ(U32(2), halves)
	Label("half")
	MOVQ(begin, a)
	MOVQ(b, at)
	MOVQ(scales, scale)
	Load(Param("records"), left)
	LEAQ(Mem{Base: b, Disp: 32 * levelsLine}, planes)
	avx.Zero(p)
	Label("record")
	for _, s := range k.rowSums() {
		VPXOR(s[0], s[0], s[0])
		VPXOR(s[1], s[1], s[1])
	}
	VMOVDQU(Mem{Base: planes}, high[0])
	if k.bits == 1 {
		VPSRLW(Imm(4), high[0], high[1])
	} else {
		VMOVDQU(Mem{Base: planes, Disp: levelsLine}, high[1])
	}
	MOVQ(U32(4), word)
	Label("word")
	k.rowWord(a, at, high)
	ADDQ(Imm(4), a)
	ADDQ(U32(levelsLine), at)
	avx.Again(word, "word")
	k.rowRecord(a, scale, p)
	ADDQ(Imm(uint64(16+4*k.bits)), a)
	for _, r := range []reg.Register{scale, planes} {
		ADDQ(U32(uint32(levelsLine*k.bits)), r)
	}
	SUBQ(U32(uint32(k.bits)), left)
	JNZ(LabelRef("record"))
	if k.bits == 1 { // Q5_K, which has mins
		k.addMins(a, Mem{Base: mins}, p)
		ADDQ(Imm(20), a)
	}
	scaled(a, Mem{Base: c}, p)
	for _, r := range []reg.Register{b, scales, mins, c} {
		ADDQ(Imm(32), r)
	}
	avx.Again(halves, "half")
	avx.Return()
}

// rowMask is of the bits that planes have for a level.
var rowMask = reg.Y11

// rowSums are those of low bits and of planes: each 16 values or, with one bit in planes, all 32
// have a scale.
func (k levels) rowSums() [][]reg.VecPhysical {
	return [][]reg.VecPhysical{avx.Y[1:3], avx.Y[3:5]}[:k.bits]
}

// second is where the words of the high halves are in a record of A, start where its sums begin
// behind the words that are done.
func (k levels) second() (second, start int) {
	if k.bits == 2 {
		return 20, 0
	}
	return 16, 16
}

// rowWord multiplies a word of both halves, whose planes are in high.
func (k levels) rowWord(a, at reg.Register, high []reg.VecPhysical) {
	fetchAhead()
	low := avx.Y[6:8]
	bit := reg.Y10
	split(Mem{Base: at}, low[0], low[1])
	second, _ := k.second()
	for half := range 2 {
		s := k.rowSums()[half%k.bits]
		VPBROADCASTD(Mem{Base: a, Disp: second * half}, levelsX)
		addTo(s[0], low[half])
		VPAND(high[half], rowMask, bit)
		addTo(s[1], bit)
		VPSRLW(Imm(uint64(k.bits)), high[half], high[half])
	}
}

// rowRecord adds a record's sums to p.
func (k levels) rowRecord(a, scale reg.Register, p reg.VecPhysical) {
	second, start := k.second()
	for i, s := range k.rowSums() {
		VPMADDWD(levelsOnes, s[0], s[0])
		VPMADDWD(levelsOnes, s[1], s[1])
		VPSLLD(Imm(4), s[1], s[1])
		VPADDD(s[1], s[0], s[0])
		VPBROADCASTD(Mem{Base: a, Disp: start + second*i}, levelsX)
		VPADDD(levelsX, s[0], s[0])
		VCVTDQ2PS(s[0], s[0])
		VFMADD231PS(Mem{Base: scale, Disp: levelsLine * i}, s[0], p)
	}
}
