package gemm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// format is the type of the numbers in a word of A and B. The wide formats unpack B while they
// multiply, for processors without an instruction for the type. loop is the kernel as scalar code.
type format struct{ name, loop string }

var (
	f32  = format{"F32", F32Loop}
	bf16 = format{"BF16", "for k := range 4*lines { c[i][j] += a[i][k].hi*b[k][j].hi + " +
		"a[i][k].lo*b[k][j].lo }"}
	bf16Wide = format{"BF16Wide", BF16WideLoop}
	int8     = format{"Int8", Int8Loop("uint8")} // A unsigned, B signed
	int8Wide = format{"Int8Wide",
		"for k := range 2*lines { for t := range 4 { c[i][j] += int32(int16(a[i][2*k+t%2][t/2])) * " +
			"int32(int8(b[k][j][t])) } }"}
)

// kernel multiplies rows of A by vecs vectors of columns of B.
type kernel struct {
	format
	rows int
	vecs int

	// wide chooses AVX-512.
	wide bool
}

// bytes returns the size of a vector register.
func (k kernel) bytes() int {
	if k.wide {
		return 64
	}
	return 32
}

// v is vector register i.
func (k kernel) v(i int) reg.VecPhysical {
	if k.wide {
		return avx.Z[i]
	}
	return avx.Y[i]
}

// acc is the register of the sums of row i and vector j.
func (k kernel) acc(i, j int) reg.VecPhysical { return k.v(i*k.vecs + j) }

// b is the register of vector j of B.
func (k kernel) b(j int) reg.VecPhysical { return k.v(k.top() - k.vecs + j) }

// scratch returns a register for the product i. It goes round those that hold neither sums nor B,
// so that a product need not wait for the one before.
func (k kernel) scratch(i int) reg.VecPhysical {
	first := k.rows * k.vecs
	return k.v(first + i%(k.top()-k.vecs-first))
}

// top is one more than the last register used; the one after it holds a constant.
func (k kernel) top() int {
	n := 16
	if k.wide {
		n = 32
	}
	if k.format == bf16Wide {
		n--
	}
	return n
}

// emit writes the kernel of one row count.
func (k kernel) emit() {
	columns := k.vecs * k.bytes() / 4
	start(fmt.Sprintf("mul%s_%dx%d", k.name, k.rows, columns), Signature,
		Product(k.rows, columns, k.loop, k.ahead()))
	a := Load(Param("a"), reg.RSI)
	b := Load(Param("b"), reg.RDI)
	from := Load(Param("from"), reg.R11)
	ldf := Load(Param("ldf"), reg.R8)
	n := Load(Param("lines"), reg.RCX)
	next := Load(Param("next"), reg.R10)
	SHLQ(Imm(2), ldf)
	if k.format == bf16Wide {
		avx.Constant(k.v(k.top()), 0xffff0000)
	}
	k.rowsOf(from, ldf, func(i, j int, m Mem) { VMOVUPS(m, k.acc(i, j)) })
	Label("loop")
	for d := 0; d < k.ahead(); d += 64 {
		PREFETCHT0(Mem{Base: next, Disp: d})
	}
	for g := range k.groups() {
		k.group(a, b, g, 4/k.groups())
	}
	ADDQ(Imm(uint64(k.rows*16)), a)
	ADDQ(U32(k.line()), b)
	ADDQ(U32(k.ahead()), next)
	avx.Again(n, "loop")
	c := Load(Param("c"), reg.R11)
	ldc := Load(Param("ldc"), reg.R8)
	SHLQ(Imm(2), ldc)
	k.rowsOf(c, ldc, func(i, j int, m Mem) { VMOVUPS(k.acc(i, j), m) })
	avx.Return()
}

// groups returns the number of words of B in each column that a line of A is multiplied by.
func (k kernel) groups() int {
	if k.format == bf16Wide || k.format == int8Wide {
		return 2
	}
	return 4
}

// line returns the bytes of B that a line of A is multiplied by.
func (k kernel) line() int { return k.groups() * k.vecs * k.bytes() }

// ahead returns the bytes that are fetched for later at each line. It is a part of a line, because
// several panels of A pass the same B, and each fetches a part of the next.
func (k kernel) ahead() int { return k.line() / 4 }

// each visits the elements of a tile.
func (k kernel) each(f func(i, j int)) {
	for i := range k.rows {
		for j := range k.vecs {
			f(i, j)
		}
	}
}

// rowsOf visits the vectors of C, and moves c on to its last row.
func (k kernel) rowsOf(c, ldc reg.Register, f func(i, j int, m Mem)) {
	for i := range k.rows {
		for j := range k.vecs {
			f(i, j, Mem{Base: c, Disp: j * k.bytes()})
		}
		if i+1 < k.rows {
			ADDQ(ldc, c)
		}
	}
}

// group multiplies a word of every column of B with parts words of every row of A.
func (k kernel) group(a, b reg.Register, g, parts int) {
	wordOfB := func(j int) Mem { return Mem{Base: b, Disp: (g*k.vecs + j) * k.bytes()} }
	for part := range parts {
		for j := range k.vecs {
			k.load(wordOfB(j), k.b(j), part)
		}
		for i := range k.rows {
			x := k.scratch(i)
			VBROADCASTSS(Mem{Base: a, Disp: i*16 + (g*parts+part)*4}, x)
			for j := range k.vecs {
				k.step(x, i, j)
			}
		}
	}
}

// load reads a vector of B, or the part of it that the next words of A belong to.
func (k kernel) load(m Mem, b reg.VecPhysical, part int) {
	switch {
	case k.format == bf16Wide && part == 0: // the low halves
		VMOVUPS(m, b)
		VPSLLD(Imm(16), b, b)
	case k.format == bf16Wide && k.wide:
		VPANDD(m, k.v(k.top()), b)
	case k.format == bf16Wide:
		VPAND(m, k.v(k.top()), b)
	case k.format == int8Wide && part == 0: // the even bytes
		VMOVUPS(m, b)
		VPSLLW(Imm(8), b, b)
		VPSRAW(Imm(8), b, b)
	case k.format == int8Wide:
		VMOVUPS(m, b)
		VPSRAW(Imm(8), b, b)
	default:
		VMOVUPS(m, b)
	}
}

// step is one multiply and add of the broadcast word x.
func (k kernel) step(x reg.VecPhysical, i, j int) {
	switch k.format {
	case bf16:
		avx.DotBF16(k.acc(i, j), k.b(j), x)
	case int8:
		if k.wide {
			VPDPBUSD(k.b(j), x, k.acc(i, j))
		} else { // of AVX-VNNI
			avx.DotVEX(k.acc(i, j), x, k.b(j))
		}
	case int8Wide:
		t := k.scratch(1 + i + j)
		if t == x {
			t = k.scratch(2 + i + j)
		}
		VPMADDWD(k.b(j), x, t)
		VPADDD(t, k.acc(i, j), k.acc(i, j))
	default:
		VFMADD231PS(x, k.b(j), k.acc(i, j))
	}
}
