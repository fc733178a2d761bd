package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// blocks is a kernel of block formats. A record of A has, for each word along the depth, the word
// of every row, and then for each row an int32 and a scale; one of B the words of every column and
// their scales.
type blocks struct {
	kernel
	name, level string                            // level is how a byte of B is read
	step        int                               // words a trip
	setup       func()                            // before the loops
	words       func(k blocks, a, b reg.Register) // one trip
}

// dotBlocks multiplies by VPDPBUSD, of AVX-512 or AVX-VNNI.
func dotBlocks(rows, vecs int, wide bool) blocks {
	return blocks{kernel: kernel{format: int8, rows: rows, vecs: vecs, wide: wide}, name: "Dot",
		level: "uint8", step: 1,
		setup: func() {}, words: func(k blocks, a, b reg.Register) {
			for j := range k.vecs {
				VMOVUPS(Mem{Base: b, Disp: j * k.bytes()}, k.b(j))
			}
			for i := range k.rows {
				x := k.rows*k.vecs + i%(k.top()-k.vecs-k.rows*k.vecs)
				if k.wide { // behind the results
					x = 2*k.rows*k.vecs + i%4
				}
				VPBROADCASTD(Mem{Base: a, Disp: 4 * i}, k.v(x))
				for j := range k.vecs {
					if k.wide {
						VPDPBUSD(k.v(x), k.b(j), k.acc(i, j))
					} else {
						avx.DotVEX(i*k.vecs+j, k.top()-k.vecs+j, x)
					}
				}
			}
		}}
}

// ones is 1 in every 16 bits: VPMADDWD by it adds pairs.
var ones = reg.Y15

func setOnes() { constant(ones, 0x00010001) }

// lowBlocks multiplies levels of up to 6 bits: four products of 63 and 127 at most fit 16 bits, so
// words are taken two at a time.
func lowBlocks(rows int) blocks {
	return blocks{kernel: kernel{format: int8, rows: rows, vecs: 2}, name: "Low", level: "uint8",
		step:  2,
		setup: setOnes, words: func(k blocks, a, b reg.Register) {
			for j := range k.vecs {
				y := [2]reg.VecPhysical{reg.Y13, reg.Y14}
				for w := range y {
					VMOVUPS(Mem{Base: b, Disp: (w*k.vecs + j) * 32}, y[w])
				}
				for i := range k.rows {
					x := [2]reg.VecPhysical{avx.Y[8+i%2], avx.Y[10+i%2]}
					for w := range x {
						VPBROADCASTD(Mem{Base: a, Disp: 4 * (w*k.rows + i)}, x[w])
						VPMADDUBSW(x[w], y[w], x[w])
					}
					VPADDW(x[1], x[0], x[0])
					VPMADDWD(ones, x[0], x[0])
					VPADDD(x[0], k.acc(i, j), k.acc(i, j))
				}
			}
		}}
}

// signedBlocks multiplies bytes with signs: those of B go over to A's, so that two products of 128
// and 127 at most are added in 16 bits.
func signedBlocks(rows int) blocks {
	return blocks{kernel: kernel{format: int8, rows: rows, vecs: 2}, name: "Signed", level: "int8",
		step:  1,
		setup: setOnes, words: func(k blocks, a, b reg.Register) {
			for j := range k.vecs {
				y, size := reg.Y13, reg.Y14
				VMOVUPS(Mem{Base: b, Disp: 32 * j}, y)
				VPABSB(y, size)
				for i := range k.rows {
					x := avx.Y[8+(2*j+i)%4]
					VPBROADCASTD(Mem{Base: a, Disp: 4 * i}, x)
					VPSIGNB(y, x, x)
					VPMADDUBSW(x, size, x)
					VPMADDWD(ones, x, x)
					VPADDD(x, k.acc(i, j), k.acc(i, j))
				}
			}
		}}
}

// emit writes the kernel of one row count.
func (k blocks) emit() {
	columns := k.vecs * k.bytes() / 4
	name := fmt.Sprintf("mulBlocks%s_%dx%d", k.name, k.rows, columns)
	TEXT(name, NOSPLIT, "func(a, b, c *float32, ldc, records, words, acc int, next uintptr)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s is, for i of %d rows and j of %d columns, with c = 0 first unless acc:", name,
		k.rows, columns), "",
		"\tfor r := range records {",
		"\t\tsum := a[r].begin[i]",
		fmt.Sprintf("\t\tfor w := range words { for t := range 4 { sum += int32(int8(a[r][w][i][t])) * "+
			"int32(%s(b[r][w][j][t])) } }", k.level),
		"\t\tc[i][j] = fma(float32(sum), a[r].scale[i]*b[r].scale[j], c[i][j])",
		"\t}", "", "and fetches 64 bytes a word from next on into the caches.")
	a := Load(Param("a"), reg.RSI)
	b := Load(Param("b"), reg.RDI)
	c := Load(Param("c"), reg.RDX)
	ldc := Load(Param("ldc"), reg.R8)
	records := Load(Param("records"), reg.RCX)
	words := Load(Param("words"), reg.R9)
	acc := Load(Param("acc"), reg.RBX)
	next := Load(Param("next"), reg.R10)
	SHLQ(Imm(2), ldc)
	k.setup()
	begin := reg.R12 // of a record's, behind its words
	MOVQ(words, begin)
	IMUL3Q(U32(uint32(4*k.rows)), begin, begin)
	if k.step == 2 {
		SHRQ(Imm(1), words)
	}
	TESTQ(acc, acc)
	if k.wide {
		JZ(LabelRef("zero"))
		k.rowsOf(c, ldc, func(i, j int, m Mem) { VMOVUPS(m, k.result(i, j)) })
		JMP(LabelRef("record"))
		Label("zero")
		for i := range k.rows {
			for j := range k.vecs {
				VPXORD(k.result(i, j), k.result(i, j), k.result(i, j))
			}
		}
	} else {
		JNZ(LabelRef("record"))
		VXORPS(reg.Y0, reg.Y0, reg.Y0)
		k.rowsOf(c, ldc, func(i, j int, m Mem) { VMOVUPS(reg.Y0, m) })
	}
	Label("record")
	for i := range k.rows {
		VPBROADCASTD(Mem{Base: a, Index: begin, Scale: 1, Disp: 4 * i}, k.acc(i, 0))
		for j := 1; j < k.vecs; j++ {
			if k.wide {
				VMOVDQA64(k.acc(i, 0), k.acc(i, j))
			} else {
				VMOVDQA(k.acc(i, 0), k.acc(i, j))
			}
		}
	}
	MOVQ(words, reg.R13)
	Label("word")
	PREFETCHT0(Mem{Base: next})
	if k.step == 2 {
		PREFETCHT0(Mem{Base: next, Disp: 64})
	}
	k.words(k, a, b)
	ADDQ(Imm(uint64(4*k.rows*k.step)), a)
	ADDQ(U32(uint32(4*columns*k.step)), b)
	ADDQ(U32(uint32(64*k.step)), next)
	DECQ(reg.R13)
	JNZ(LabelRef("word"))
	k.finish(a, b, c, ldc)
	ADDQ(Imm(uint64(8*k.rows)), a)
	ADDQ(U32(uint32(4*columns)), b)
	DECQ(records)
	JNZ(LabelRef("record"))
	if k.wide {
		k.rowsOf(c, ldc, func(i, j int, m Mem) { VMOVUPS(k.result(i, j), m) })
	}
	VZEROUPPER()
	RET()
}

// result is the register of an element of C: AVX-512 has enough, AVX2 keeps C in memory.
func (k blocks) result(i, j int) reg.VecPhysical { return k.v((k.rows+i)*k.vecs + j) }

// finish adds a record's sums to C, behind whose words a and b are. The registers above the sums
// are free but for the last, which may hold ones.
func (k blocks) finish(a, b, c, ldc reg.Register) {
	first := k.rows * k.vecs
	if k.wide {
		first *= 2
	}
	scale := func(j int) reg.VecPhysical { return k.v(first + j) }
	if first == 12 && !k.wide { // the last registers, as there are no ones
		scale = func(j int) reg.VecPhysical { return k.v(14 + j) }
	}
	row, product := k.v(first+k.vecs), k.v(first+k.vecs+1)
	if first == 12 && !k.wide {
		row, product = k.v(12), k.v(13)
	}
	for j := range k.vecs {
		VMOVUPS(Mem{Base: b, Disp: j * k.bytes()}, scale(j))
	}
	each := func(i, j int, m Mem) {
		if j == 0 {
			VBROADCASTSS(Mem{Base: a, Disp: 4 * (k.rows + i)}, row)
		}
		VMULPS(row, scale(j), product)
		VCVTDQ2PS(k.acc(i, j), k.acc(i, j))
		if k.wide {
			VFMADD231PS(k.acc(i, j), product, k.result(i, j))
			return
		}
		VFMADD213PS(m, product, k.acc(i, j))
		VMOVUPS(k.acc(i, j), m)
	}
	if !k.wide {
		k.rowsOf(c, ldc, each)
		return
	}
	for i := range k.rows {
		for j := range k.vecs {
			each(i, j, Mem{})
		}
	}
}
