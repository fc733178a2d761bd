package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// blocks is a kernel of block formats. A record of A has, for each word along the depth, the word
// of every row, and then for each row an int32; one of B the words of every column and then their
// scales. Behind a panel's records are its rows' scales.
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
				x := k.scratch(i)
				if k.wide { // behind the results
					x = k.v(2*k.rows*k.vecs + i%4)
				}
				VPBROADCASTD(Mem{Base: a, Disp: 4 * i}, x)
				for j := range k.vecs {
					if k.wide {
						VPDPBUSD(x, k.b(j), k.acc(i, j))
					} else {
						avx.DotVEX(k.acc(i, j), k.b(j), x)
					}
				}
			}
		}}
}

// ones is 1 in every 16 bits: VPMADDWD by it adds pairs.
var ones = reg.Y15

func setOnes() { avx.Constant(ones, 0x00010001) }

// lowBlocks multiplies levels of up to 6 bits: four products of 63 and 127 at most fit 16 bits, so
// words are taken two at a time.
func lowBlocks(rows int) blocks {
	return blocks{
		kernel: kernel{format: int8, rows: rows, vecs: 2},
		name:   "Low",
		level:  "uint8",
		step:   2,
		setup:  setOnes,
		words: func(k blocks, a, b reg.Register) {
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
		},
	}
}

// signedBlocks multiplies bytes with signs: those of B go over to A's, so that two products of 128
// and 127 at most are added in 16 bits.
func signedBlocks(rows int) blocks {
	return blocks{
		kernel: kernel{format: int8, rows: rows, vecs: 2},
		name:   "Signed",
		level:  "int8",
		step:   1,
		setup:  setOnes,
		words: func(k blocks, a, b reg.Register) {
			for j := range k.vecs {
				y := reg.Y13
				size := reg.Y14
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
		},
	}
}

// emit writes the kernel of one row count.
func (k blocks) emit() {
	columns := k.vecs * k.bytes() / 4
	name := fmt.Sprintf("mulBlocks%s_%dx%d", k.name, k.rows, columns)
	start(name, BlocksSignature("p"), Blocks(k.rows, columns, k.level,
		k.fetches(), k.mins()))
	a := Load(Param("a"), reg.RSI)
	c := Load(Param("c"), reg.RDX)
	ldc := Load(Param("ldc"), reg.R8)
	next := Load(Param("next"), reg.R10)
	step := Load(Param("step"), reg.RBX)
	p := reg.R14
	if !k.wide {
		Load(Param("p"), p)
	}
	SHLQ(Imm(2), ldc)
	k.setup()
	Label("panel")
	b := Load(Param("b"), reg.RDI)
	records := Load(Param("records"), reg.RCX)
	words := Load(Param("words"), reg.R9)
	mins := reg.RAX
	high := reg.R15 // whether the words are of the sums' high bytes
	if k.mins() {
		Load(Param("mins"), mins)
		XORQ(high, high)
	}
	begin := reg.R12 // of a record's, behind its words
	IMUL3Q(U32(uint32(4*k.rows)), words, begin)
	if k.step == 2 {
		SHRQ(Imm(1), words)
	}
	k.clear(p)
	Label("record")
	k.begin(a, begin)
	MOVQ(words, reg.R13)
	Label("word")
	for range k.step * k.fetches() {
		PREFETCHT0(Mem{Base: next})
		ADDQ(step, next)
	}
	k.words(k, a, b)
	ADDQ(Imm(uint64(4*k.rows*k.step)), a)
	ADDQ(U32(uint32(4*columns*k.step)), b)
	avx.Again(reg.R13, "word")
	if k.mins() {
		TESTQ(high, high)
		JNZ(LabelRef("low"))
	}
	k.finish(b, p)
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(U32(uint32(4*columns)), b)
	avx.Again(records, "record")
	if k.mins() {
		k.addMins(b, mins, high, records, words, begin)
	}
	if k.wide {
		k.add(a, c, ldc)
	} else {
		k.addParts(a, c, ldc, p)
	}
	nextPanel(a)
}

// nextPanel moves a from the end of a panel's group on to the next panel, and returns after the
// last.
func nextPanel(a reg.Register) {
	ADDQ(argument("skip"), a)
	avx.Again(argument("panels"), "panel")
	avx.Return()
}

// fetches is how many lines are fetched a word. One row passes a group once, so 48 columns of it
// take three lines a word.
func (k blocks) fetches() int {
	if k.wide && k.rows == 1 {
		return 3
	}
	return 1
}

// clear sets p to 0.
func (k blocks) clear(p reg.GPPhysical) {
	if k.wide {
		k.each(func(i, j int) { avx.Zero(k.result(i, j)) })
		return
	}
	avx.Zero(reg.Y0)
	k.each(func(i, j int) { VMOVUPS(reg.Y0, k.part(p, i, j)) })
}

// begin sets the sums of a record to those that A has for it.
func (k blocks) begin(a, begin reg.Register) {
	k.each(func(i, j int) {
		switch {
		case j == 0:
			VPBROADCASTD(Mem{Base: a, Index: begin, Scale: 1, Disp: 4 * i}, k.acc(i, 0))
		case k.wide:
			VMOVDQA64(k.acc(i, 0), k.acc(i, j))
		default:
			VMOVDQA(k.acc(i, 0), k.acc(i, j))
		}
	})
}

// addMins writes the part after a panel's last record: mins, if there are any, are one record more.
// Its words are multiplied twice, by A's high bytes, whose sums are then shifted by 6 bits, and by
// A's low bytes.
func (k blocks) addMins(b, mins, high, records, words, begin reg.Register) {
	TESTQ(mins, mins)
	JZ(LabelRef("end"))
	MOVQ(mins, b)
	XORQ(mins, mins)
	INCQ(records)
	INCQ(high)
	MOVQ(U32(uint32(2/k.step)), words)
	MOVQ(U32(uint32(4*4*k.rows)), begin)
	JMP(LabelRef("record"))
	Label("low")
	DECQ(high)
	k.each(func(i, j int) { VPSLLD(Imm(6), k.acc(i, j), k.acc(i, j)) })
	SUBQ(U32(uint32(2*k.vecs*k.bytes())), b)
	MOVQ(words, reg.R13)
	JMP(LabelRef("word"))
	Label("end")
}

// mins reports whether the kernel is for formats with mins. Those have kernels of their own for
// one row.
func (k blocks) mins() bool { return k.name != "Signed" && k.rows > 1 }

// argument is the place of a parameter.
func argument(name string) Mem {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// result is the register of an element of p: AVX-512 has enough, AVX2 keeps p in memory.
func (k blocks) result(i, j int) reg.VecPhysical { return k.v((k.rows+i)*k.vecs + j) }

// part is an element of p in memory.
func (k kernel) part(p reg.Register, i, j int) Mem {
	return Mem{Base: p, Disp: (i*k.vecs + j) * k.bytes()}
}

// finish adds a record's sums to p, behind whose words b is. The registers above the sums are free
// but for the last, which may hold ones.
func (k blocks) finish(b, p reg.Register) {
	first := k.rows * k.vecs
	if k.wide {
		first *= 2
	}
	if first == 12 && !k.wide { // the last registers, as there are no ones
		first = 14
	}
	scale := func(j int) reg.VecPhysical { return k.v(first + j) }
	for j := range k.vecs {
		VMOVUPS(Mem{Base: b, Disp: j * k.bytes()}, scale(j))
	}
	k.each(func(i, j int) {
		VCVTDQ2PS(k.acc(i, j), k.acc(i, j))
		if k.wide {
			VFMADD231PS(k.acc(i, j), scale(j), k.result(i, j))
			return
		}
		VFMADD213PS(k.part(p, i, j), scale(j), k.acc(i, j))
		VMOVUPS(k.acc(i, j), k.part(p, i, j))
	})
}

// add adds p, which is in registers, times the rows' scales to c. It moves a and c behind them.
func (k blocks) add(a, c, ldc reg.Register) {
	k.rowsOf(c, ldc, func(i, j int, m Mem) {
		if j == 0 {
			VBROADCASTSS(Mem{Base: a, Disp: 4 * i}, k.v(i%4))
		}
		VFMADD213PS(m, k.v(i%4), k.result(i, j))
		VMOVUPS(k.result(i, j), m)
	})
	ADDQ(Imm(uint64(4*k.rows)), a)
	ADDQ(ldc, c)
}

// addParts is add for p in memory, in a loop over the rows.
func (k blocks) addParts(a, c, ldc, p reg.Register) {
	MOVQ(U32(uint32(k.rows)), reg.R13)
	Label("row")
	VBROADCASTSS(Mem{Base: a}, k.v(k.vecs))
	for j := range k.vecs {
		m := Mem{Base: c, Disp: j * k.bytes()}
		VMOVUPS(k.part(p, 0, j), k.v(j))
		VFMADD213PS(m, k.v(k.vecs), k.v(j))
		VMOVUPS(k.v(j), m)
	}
	ADDQ(Imm(4), a)
	ADDQ(ldc, c)
	ADDQ(Imm(uint64(k.vecs*k.bytes())), p)
	avx.Again(reg.R13, "row")
	SUBQ(U32(uint32(k.rows*k.vecs*k.bytes())), p)
}
