package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// emitWindows writes the kernel whose rows of A stand in memory as they are, lda apart: the windows
// of neighbouring pixels, a run of memory for each row of a window.
func (k kernel) emitWindows() {
	columns := k.vecs * k.bytes() / 4
	name := fmt.Sprintf("windows_%dx%d", k.rows, columns)
	start(name, "(a, b, c *float32, lda, ldc, lines, runs, pitch int)", fmt.Sprintf(
		"is, for i of %d rows and j of %d columns, with c = 0 first:\n\n"+
			"\tfor r := range runs { for k := range 4*lines {\n"+
			"\t\tc[i][j] = fma(a[r*pitch+i*lda+k], b[4*lines*r+k][j], c[i][j]) } }", k.rows, columns))
	a := Load(Param("a"), reg.RSI)
	b := Load(Param("b"), reg.RDI)
	lda := Load(Param("lda"), reg.R8)
	runs := Load(Param("runs"), reg.RBX)
	skip := Load(Param("pitch"), reg.R13)
	lines := Load(Param("lines"), reg.R10)
	SHLQ(Imm(2), lda)
	SHLQ(Imm(2), skip) // from the end of a run to the next
	MOVQ(lines, reg.RAX)
	SHLQ(Imm(4), reg.RAX)
	SUBQ(reg.RAX, skip)
	three := reg.R9
	five := reg.R12
	LEAQ(Mem{Base: lda, Index: lda, Scale: 2}, three)
	LEAQ(Mem{Base: lda, Index: lda, Scale: 4}, five)
	sixths := []reg.Register{a} // every sixth row
	if k.rows > 6 {
		sixths = append(sixths, reg.R11)
		LEAQ(Mem{Base: a, Index: three, Scale: 2}, reg.R11)
	}
	at := func(i int) Mem {
		m := []Mem{{}, {Index: lda, Scale: 1}, {Index: lda, Scale: 2}, {Index: three, Scale: 1},
			{Index: lda, Scale: 4}, {Index: five, Scale: 1}}[i%6]
		m.Base = sixths[i/6]
		return m
	}
	k.each(func(i, j int) { avx.Zero(k.acc(i, j)) })
	n := reg.RCX
	Label("run")
	MOVQ(lines, n)
	ADDQ(lines, n)
	Label("words")
	k.windowWords(b, at)
	for _, r := range sixths {
		ADDQ(Imm(4*windowWords), r)
	}
	ADDQ(U32(uint32(windowWords*k.vecs*k.bytes())), b)
	avx.Again(n, "words")
	for _, r := range sixths {
		ADDQ(skip, r)
	}
	avx.Again(runs, "run")
	c := Load(Param("c"), reg.RDX)
	ldc := Load(Param("ldc"), reg.R8)
	SHLQ(Imm(2), ldc)
	k.rowsOf(c, ldc, func(i, j int, m Mem) { VMOVUPS(k.acc(i, j), m) })
	avx.Return()
}

// windowWords are the words of a trip.
const windowWords = 2

// windowWords multiplies a trip's words of the rows at addresses.
func (k kernel) windowWords(b reg.Register, at func(i int) Mem) {
	for g := range windowWords {
		for j := range k.vecs {
			m := Mem{Base: b, Disp: (g*k.vecs + j) * k.bytes()}
			VMOVUPS(m, k.b(j))
			if m.Disp%64 == 0 {
				PREFETCHT0(m.Offset(ahead))
			}
		}
		for i := range k.rows {
			x := k.scratch(i)
			VBROADCASTSS(at(i).Offset(4*g), x)
			for j := range k.vecs {
				k.step(x, i, j)
			}
		}
	}
}

// ahead is the distance, in bytes, at which B is prefetched into the nearest cache.
const ahead = 1024
