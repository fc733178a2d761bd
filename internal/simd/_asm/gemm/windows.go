package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// windows writes the kernel whose rows of A stand in memory as they are, lda apart: the windows of
// neighbouring pixels, a run of memory for each row of a window.
func (k kernel) windows() {
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
	three, five, far := reg.R9, reg.R12, reg.R11
	LEAQ(Mem{Base: lda, Index: lda, Scale: 2}, three)
	LEAQ(Mem{Base: lda, Index: lda, Scale: 4}, five)
	if k.rows > 6 {
		LEAQ(Mem{Base: a, Index: three, Scale: 2}, far)
	}
	at := func(i int) Mem {
		m := Mem{Base: a}
		if i >= 6 {
			m.Base = far
		}
		switch i % 6 {
		case 1, 2, 4:
			m.Index, m.Scale = lda, uint8(i%6)
		case 3:
			m.Index, m.Scale = three, 1
		case 5:
			m.Index, m.Scale = five, 1
		}
		return m
	}
	for i := range k.rows {
		for j := range k.vecs {
			if k.wide {
				VPXORD(k.acc(i, j), k.acc(i, j), k.acc(i, j))
			} else {
				VXORPS(k.acc(i, j), k.acc(i, j), k.acc(i, j))
			}
		}
	}
	n := reg.RCX
	Label("run")
	MOVQ(lines, n)
	ADDQ(lines, n)
	Label("words")
	const words = 2 // of a trip
	for g := range words {
		for j := range k.vecs {
			m := Mem{Base: b, Disp: (g*k.vecs + j) * k.bytes()}
			VMOVUPS(m, k.b(j))
			if m.Disp%64 == 0 {
				m.Disp += ahead
				PREFETCHT0(m)
			}
		}
		for i := range k.rows {
			x, m := k.free(i), at(i)
			m.Disp = 4 * g
			VBROADCASTSS(m, x)
			for j := range k.vecs {
				k.step(x, i, j)
			}
		}
	}
	ADDQ(Imm(4*words), a)
	if k.rows > 6 {
		ADDQ(Imm(4*words), far)
	}
	ADDQ(U32(uint32(words*k.vecs*k.bytes())), b)
	avx.Again(n, "words")
	ADDQ(skip, a)
	if k.rows > 6 {
		ADDQ(skip, far)
	}
	avx.Again(runs, "run")
	c := Load(Param("c"), reg.RDX)
	ldc := Load(Param("ldc"), reg.R8)
	SHLQ(Imm(2), ldc)
	k.rowsOf(c, ldc, func(i, j int, m Mem) { VMOVUPS(k.acc(i, j), m) })
	avx.Return()
}

// ahead is the distance, in bytes, at which B is prefetched into the nearest cache.
const ahead = 1024
