package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// levels is a kernel of AVX2 that takes levels as they are packed: two of 4 bits in each byte, and
// in planes behind them one or two bits more. Products of 4 bits and 127 are added in 16 bits for
// all of a record, and so are those of the planes, which count 16 times as much.
type levels struct {
	rows, bits int    // bits in planes
	name       string // of the format
}

const levelsColumns = 16

// Registers that hold constants, and those of a word of A.
var (
	levelsMask  = reg.Y15 // 15 in each byte
	levelsWord  = reg.Y12
	levelsOther = reg.Y13
	levelsTerm  = reg.Y14
)

// start writes a kernel's head, and loads what all need.
func (k levels) start() (name string) {
	name = fmt.Sprintf("mulBlocks%s_%dx%d", k.name, k.rows, levelsColumns)
	TEXT(name, NOSPLIT, "func(a, b, mins, c, scales *float32, ldc, panels, skip, records, words int, "+
		"next uintptr, step int)")
	Pragma("noescape")
	return name
}

func fetchAhead() {
	PREFETCHT0(Mem{Base: reg.R10})
	ADDQ(reg.RBX, reg.R10)
}

// halvesOfBytes splits the bytes at m into low and high halves.
func halvesOfBytes(m Mem, low, high reg.VecPhysical) {
	VMOVDQU(m, high)
	VPAND(high, levelsMask, low)
	VPSRLW(Imm(4), high, high)
	VPAND(high, levelsMask, high)
}

// onesOf is 1 in each 16 bits.
func onesOf(v reg.VecPhysical) {
	VPCMPEQW(v, v, v)
	VPSRLW(Imm(15), v, v)
}

// emitTile writes the kernel of several rows. Their results of a group are on the stack.
func (k levels) emitTile() {
	name := k.start()
	Doc(fmt.Sprintf("%s is mulBlocksLow_4x16 for %d rows and records of 8 words, of 4 bits, and scales apart:",
		name, k.rows), "",
		"\tb'[r][w][j][t] = b[r][w%4][j][t] >> (w/4*4) & 15", "",
		"It fetches 5 times a record.")
	constant(levelsMask, 0x0f0f0f0f)
	a, b, mins, c, ldc := Load(Param("a"), reg.RSI), reg.RDI, Load(Param("mins"), reg.RAX),
		Load(Param("c"), reg.RDX), Load(Param("ldc"), reg.R8)
	Load(Param("next"), reg.R10)
	Load(Param("step"), reg.RBX)
	scales, records, left, tile := reg.R9, reg.RCX, reg.R13, reg.R14
	LEAQ(AllocLocal(64*k.rows+32).Offset(31), tile)
	ANDQ(I32(-32), tile)
	SHLQ(Imm(2), ldc)
	acc := func(i, j int) reg.VecPhysical { return avx.Y[2*i+j] }
	part := func(i, j int) Mem { return Mem{Base: tile, Disp: 64*i + 32*j} }
	low, high := avx.Y[8:10], avx.Y[10:12]
	Label("panel")
	Load(Param("b"), b)
	Load(Param("scales"), scales)
	Load(Param("records"), records)
	VPXOR(reg.Y0, reg.Y0, reg.Y0)
	for i := range k.rows {
		for j := range 2 {
			VMOVDQU(reg.Y0, part(i, j))
		}
	}
	Label("record")
	for i := range k.rows {
		for j := range 2 {
			VPXOR(acc(i, j), acc(i, j), acc(i, j))
		}
	}
	MOVQ(U32(4), left)
	Label("word")
	fetchAhead()
	for j := range 2 {
		halvesOfBytes(Mem{Base: b, Disp: 32 * j}, low[j], high[j])
	}
	for half, y := range [][]reg.VecPhysical{low, high} {
		for i := range k.rows {
			VPBROADCASTD(Mem{Base: a, Disp: 4 * (4*half*k.rows + i)}, levelsWord)
			for j := range 2 {
				t := avx.Y[13+j]
				VPMADDUBSW(levelsWord, y[j], t)
				VPADDW(t, acc(i, j), acc(i, j))
			}
		}
	}
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(Imm(64), b)
	DECQ(left)
	JNZ(LabelRef("word"))
	fetchAhead()
	ones := levelsTerm
	onesOf(ones)
	for j := range 2 {
		VMOVUPS(Mem{Base: scales, Disp: 32 * j}, low[j])
	}
	for i := range k.rows {
		VPBROADCASTD(Mem{Base: a, Disp: 4 * (4*k.rows + i)}, levelsWord)
		for j := range 2 {
			VPMADDWD(ones, acc(i, j), acc(i, j))
			VPADDD(levelsWord, acc(i, j), acc(i, j))
			VCVTDQ2PS(acc(i, j), acc(i, j))
			VFMADD213PS(part(i, j), low[j], acc(i, j))
			VMOVUPS(acc(i, j), part(i, j))
		}
	}
	ADDQ(Imm(uint64(20*k.rows)), a)
	ADDQ(Imm(64), scales)
	DECQ(records)
	JNZ(LabelRef("record"))
	onesOf(ones)
	MOVQ(U32(uint32(k.rows)), left)
	scale := reg.R11 // the rows' scales
	MOVQ(a, scale)
	TESTQ(mins, mins)
	JZ(LabelRef("row"))
	ADDQ(Imm(uint64(20*k.rows)), scale)
	Label("row")
	for j := range 2 {
		VMOVUPS(part(0, j), avx.Y[j])
	}
	TESTQ(mins, mins)
	JZ(LabelRef("scale"))
	for j := range 2 {
		k.addMins(a, Mem{Base: mins, Disp: 32 * j}, avx.Y[j])
	}
	Label("scale")
	VBROADCASTSS(Mem{Base: scale}, levelsWord)
	for j := range 2 {
		m := Mem{Base: c, Disp: 32 * j}
		VFMADD213PS(m, levelsWord, avx.Y[j])
		VMOVUPS(avx.Y[j], m)
	}
	ADDQ(Imm(4), a)
	ADDQ(Imm(4), scale)
	ADDQ(Imm(64), tile)
	ADDQ(ldc, c)
	DECQ(left)
	JNZ(LabelRef("row"))
	SUBQ(U32(uint32(64*k.rows)), tile)
	MOVQ(scale, a)
	ADDQ(argument("skip"), a)
	DECQ(argument("panels"))
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// addMins adds to p the products of a row's sums at a with the mins at m: two words of each column,
// then their scales. levelsTerm holds ones.
func (k levels) addMins(a reg.Register, m Mem, p reg.VecPhysical) {
	sum, y, t, u := avx.Y[4:6], avx.Y[6:8], reg.Y8, reg.Y9
	for w := range y {
		VMOVDQU(m.Offset(4*levelsColumns*w), y[w])
	}
	for half, s := range sum { // of high bytes and of low ones
		for w, to := range []reg.VecPhysical{s, t} {
			VPBROADCASTD(Mem{Base: a, Disp: 4 * (2*half + w) * k.rows}, u)
			VPMADDUBSW(u, y[w], to)
		}
		VPADDW(t, s, s)
		VPMADDWD(levelsTerm, s, s)
	}
	VPSLLD(Imm(6), sum[0], sum[0])
	VPADDD(sum[1], sum[0], sum[0])
	VCVTDQ2PS(sum[0], sum[0])
	VFMADD231PS(m.Offset(8*levelsColumns), sum[0], p)
}

// emitRow writes the kernel of one row, which takes half of the columns after the other.
func (k levels) emitRow() {
	name := k.start()
	loop := "b[r][w%4][j][t] >> (w/4*4) & 15"
	if k.bits > 0 {
		loop += fmt.Sprintf(" | planes[r][%d*w/8][j][t] >> (%d*w%%8) & %d << 4", k.bits, k.bits, 1<<k.bits-1)
	}
	Doc(name+" is mulBlocksLow_4x16 for one row and 32 values as they are packed, with scales apart:", "",
		"\tb'[r][w][j][t] = "+loop, "", "It fetches 8 times for 32 values.")
	sums, ones, mask := avx.Y[1:5], reg.Y11, reg.Y10 // sums of halves and of their planes
	constant(levelsMask, 0x0f0f0f0f)
	onesOf(ones)
	if k.bits > 0 {
		constant(mask, []uint32{0, 0x01010101, 0x03030303}[k.bits])
	}
	begin, b, mins, c := Load(Param("a"), reg.RSI), Load(Param("b"), reg.RCX),
		Load(Param("mins"), reg.RAX), Load(Param("c"), reg.RDX)
	scales := Load(Param("scales"), reg.R14)
	Load(Param("next"), reg.R10)
	Load(Param("step"), reg.RBX)
	a, at, scale, left, halves, planes, word := reg.R8, reg.R9, reg.R11, reg.R12, reg.R13, reg.R15,
		reg.RDI
	MOVQ(U32(2), halves)
	Label("half")
	MOVQ(begin, a)
	MOVQ(b, at)
	MOVQ(scales, scale)
	Load(Param("records"), left)
	if k.bits == 2 {
		SHRQ(Imm(1), left) // of 32 values
	}
	LEAQ(Mem{Base: b, Disp: 32 * 4 * levelsColumns}, planes)
	VXORPS(reg.Y0, reg.Y0, reg.Y0)
	Label("record")
	second := 16 // bytes of A before the words of the high halves
	if k.bits == 2 {
		second = 20
	}
	high := []reg.VecPhysical{reg.Y8, reg.Y9}
	switch k.bits {
	case 1:
		VMOVDQU(Mem{Base: planes}, high[0])
		VPSRLW(Imm(4), high[0], high[1])
	case 2:
		VMOVDQU(Mem{Base: planes}, high[0])
		VMOVDQU(Mem{Base: planes, Disp: 4 * levelsColumns}, high[1])
	}
	for i := range k.apart() {
		VPXOR(sums[i], sums[i], sums[i])
		if k.bits > 0 {
			VPXOR(sums[2+i], sums[2+i], sums[2+i])
		}
	}
	MOVQ(U32(4), word)
	Label("word")
	fetchAhead()
	y := []reg.VecPhysical{reg.Y5, reg.Y6}
	halvesOfBytes(Mem{Base: at}, y[0], y[1])
	for half := range 2 {
		x := avx.Y[12+half]
		VPBROADCASTD(Mem{Base: a, Disp: second * half}, x)
		k.sum(x, y[half], sums[half%k.apart()])
		if k.bits > 0 {
			VPAND(high[half], mask, reg.Y7)
			k.sum(x, reg.Y7, sums[2+half%k.apart()])
			VPSRLW(Imm(uint64(k.bits)), high[half], high[half])
		}
	}
	ADDQ(Imm(4), a)
	ADDQ(U32(4*levelsColumns), at)
	DECQ(word)
	JNZ(LabelRef("word"))
	for i := range k.apart() {
		VPMADDWD(ones, sums[i], sums[i])
		if k.bits > 0 {
			VPMADDWD(ones, sums[2+i], sums[2+i])
			VPSLLD(Imm(4), sums[2+i], sums[2+i])
			VPADDD(sums[2+i], sums[i], sums[i])
		}
		first := 16 // behind the first half's words
		if k.bits == 2 {
			first = second * i
		}
		VPBROADCASTD(Mem{Base: a, Disp: first}, reg.Y7)
		VPADDD(reg.Y7, sums[i], sums[i])
		VCVTDQ2PS(sums[i], sums[i])
		VFMADD231PS(Mem{Base: scale, Disp: 4 * levelsColumns * i}, sums[i], reg.Y0)
	}
	ADDQ(Imm(uint64(16+4*k.apart())), a)
	ADDQ(U32(uint32(4*levelsColumns*k.apart())), scale)
	if k.bits > 0 {
		ADDQ(U32(uint32(4*levelsColumns*k.bits)), planes)
	}
	DECQ(left)
	JNZ(LabelRef("record"))
	if k.bits < 2 {
		TESTQ(mins, mins)
		JZ(LabelRef("scale"))
		VMOVDQA(ones, levelsTerm)
		k.addMins(a, Mem{Base: mins}, reg.Y0)
		ADDQ(Imm(20), a)
		ADDQ(Imm(32), mins)
		Label("scale")
	}
	VBROADCASTSS(Mem{Base: a}, levelsWord)
	VFMADD213PS(Mem{Base: c}, levelsWord, reg.Y0)
	VMOVUPS(reg.Y0, Mem{Base: c})
	for _, r := range []reg.Register{b, scales, c} {
		ADDQ(Imm(32), r)
	}
	DECQ(halves)
	JNZ(LabelRef("half"))
	VZEROUPPER()
	RET()
}

// apart is how many scales 32 values have.
func (k levels) apart() int {
	if k.bits == 2 {
		return 2
	}
	return 1
}

// sum adds the products of the levels y and the word x to sum.
func (k levels) sum(x, y, sum reg.VecPhysical) {
	VPMADDUBSW(x, y, levelsTerm)
	VPADDW(levelsTerm, sum, sum)
}
