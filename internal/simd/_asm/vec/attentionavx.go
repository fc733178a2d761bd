package vec

import (
	"fmt"
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// panel is the layout of queries in attention: each lane of `columns` registers holds one query.
// tile is the number of keys, or of value columns, that are accumulated at a time. words is the
// kind of factors that are multiplied.
type panel struct {
	width
	name          string
	columns, tile int
	words         words
}

// words are the factors of a product: one float32, or two numbers of half its size.
type words int

const (
	float32s words = iota
	bfloat16s
	integers
)

// panels returns the panels of a width. In the widest, 24 of 32 registers accumulate with AVX-512,
// and 12 of 16 with AVX2. The narrower ones are for the last queries of a segment.
func (w width) panels() []panel {
	if w.lanes == 16 {
		return []panel{{w, "Wide", 3, 8, float32s}, {w, "Middle", 2, 8, float32s},
			{w, "Narrow", 1, 8, float32s}}
	}
	return []panel{{w, "Wide", 3, 4, float32s}, {w, "Narrow", 1, 8, float32s}}
}

// The registers of a product: accumulators, a line of the panel, and broadcast words in turn.

func (p panel) acc(i, j int) reg.VecPhysical { return p.v(i*p.columns + j) }
func (p panel) line(j int) reg.VecPhysical   { return p.v(p.tile*p.columns + j) }
func (p panel) word(i int) reg.VecPhysical {
	first := (p.tile + 1) * p.columns
	all := 16 * p.lanes / 8
	return p.v(first + i%(all-first))
}

func (p panel) v(i int) reg.VecPhysical {
	if p.lanes == 16 {
		return avx.Z[i]
	}
	return avx.Y[i]
}

// all is the number of queries.
func (p panel) all() int { return p.columns * p.lanes }

// step is the bytes of one line of a panel.
func (p panel) step() int { return p.columns * p.bytes() }

func (p panel) column(base reg.Register, j int) Mem { return Mem{Base: base, Disp: j * p.bytes()} }

// strided returns the addresses base + i*stride for i < n <= 8.
func strided(base, stride reg.Register, n int) []Mem {
	at := []Mem{{Base: base}, {Base: base, Index: stride, Scale: 1},
		{Base: base, Index: stride, Scale: 2}}
	if n > 3 {
		three := GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
		at = append(at, Mem{Base: base, Index: three, Scale: 1}, Mem{Base: base, Index: stride, Scale: 4})
		if n > 5 {
			five := GP64()
			seven := GP64()
			LEAQ(Mem{Base: stride, Index: stride, Scale: 4}, five)
			LEAQ(Mem{Base: three, Index: stride, Scale: 4}, seven)
			at = append(at, Mem{Base: base, Index: five, Scale: 1}, Mem{Base: base, Index: three, Scale: 2},
				Mem{Base: base, Index: seven, Scale: 1})
		}
	}
	return at[:n]
}

// ahead returns the number of bytes to prefetch for each word of keys or values: 4 for each value
// in a word, because the next ones are float32.
func (p panel) ahead() int {
	if p.words == float32s {
		return 4
	}
	return 8
}

// accumulate adds, for one term of the sum, the products of words broadcast from memory and a
// line of the panel, and fetches what is needed soon.
func (p panel) accumulate(words []Mem, line, next reg.Register) {
	if p.words == float32s {
		PREFETCHT0(Mem{Base: next})
	} else { // read once, and rounded
		PREFETCHT1(Mem{Base: next})
	}
	ADDQ(U8(p.ahead()*len(words)), next)
	for j := range p.columns {
		VMOVUPS(p.column(line, j), p.line(j))
	}
	for i, m := range words {
		VBROADCASTSS(m, p.word(i))
		for j := range p.columns {
			switch p.words {
			case float32s:
				VFMADD231PS(p.line(j), p.word(i), p.acc(i, j))
			case bfloat16s:
				avx.DotBF16(p.acc(i, j), p.line(j), p.word(i))
			case integers:
				VPDPWSSD(p.line(j), p.word(i), p.acc(i, j))
			}
		}
	}
}

// tiles runs body for tiles of n, as many as fit, and then for single ones.
func (p panel) tiles(n reg.Register, body func(tile int, label func(string) string)) {
	for _, tile := range []int{p.tile, 1} {
		l := func(s string) string { return fmt.Sprintf("%s%d", s, tile) }
		Label(l("tile"))
		CMPQ(n, U32(tile))
		JLT(LabelRef(l("end")))
		body(tile, l)
		SUBQ(U32(tile), n)
		JMP(LabelRef(l("tile")))
		Label(l("end"))
	}
	ret()
}

// accumulators visits those of a tile.
func (p panel) accumulators(tile int, f func(i, j int, acc reg.VecPhysical)) {
	for i := range tile {
		for j := range p.columns {
			f(i, j, p.acc(i, j))
		}
	}
}

// scores generates the products of a block of keys with a panel of queries.
func (p panel) scores() {
	if p.words == integers {
		p.text("scoresFixed"+p.name, "(s, k, scale, q *float32, keys, words int, next uintptr)",
			fmt.Sprintf(
				"for i := range keys {\n\tfor j := range %d {\n\t\tsum := int32(0)\n\t\tfor w := range words { "+
					"sum += k[i][w].lo*q[w][j].lo + k[i][w].hi*q[w][j].hi }\n\t\ts[i][j] = "+
					"float32(sum)*scale[i]\n\t}\n}\n\n"+
					"s is [keys, %[1]d], k [keys, words], q [words, %[1]d]; lo and hi are int16. ", p.all())+
				fetches(p.ahead()))
	} else {
		p.text("scores"+p.name, scoresSignature, scoresDoc(p.all(), p.ahead()))
	}
	s := pointer("s")
	k := pointer("k")
	q := pointer("q")
	keys := pointer("keys")
	next := pointer("next")
	var dim, scale reg.Register
	if p.words == integers {
		dim = pointer("words")
		scale = pointer("scale")
	} else {
		dim = pointer("dim")
	}
	stride := GP64()
	MOVQ(dim, stride)
	SHLQ(U8(2), stride)
	all := strided(k, stride, p.tile)
	p.tiles(keys, func(tile int, l func(string) string) {
		p.accumulators(tile, func(_, _ int, a reg.VecPhysical) { p.xor(a, a, a) })
		line := GP64()
		n := GP64()
		MOVQ(q, line)
		MOVQ(dim, n)
		Label(l("term"))
		p.accumulate(all[:tile], line, next)
		ADDQ(U8(4), k)
		ADDQ(U32(p.step()), line)
		avx.Again(n, l("term"))
		p.accumulators(tile, func(i, j int, a reg.VecPhysical) {
			if p.words == integers {
				VCVTDQ2PS(a, a)
				VMULPS_BCST(Mem{Base: scale, Disp: 4 * i}, a, a)
			}
			VMOVUPS(a, Mem{Base: s, Disp: i*p.step() + j*p.bytes()})
		})
		if p.words == integers {
			ADDQ(U8(4*tile), scale)
		}
		ADDQ(U32(tile*p.step()), s)
		// k is at the second key of the tile
		if tile > 1 {
			LEAQ(all[tile-1], k)
		}
	})
}

// values generates the product of a block of values with the weights of a panel of queries.
func (p panel) values() {
	if p.words == bfloat16s {
		p.text("valuesBF16"+p.name, valuesSignature,
			valuesDoc(p.all(), p.ahead(), "v[i][d].lo*s[i][j].lo + v[i][d].hi*s[i][j].hi"))
	} else {
		p.text("values"+p.name, valuesSignature, valuesDoc(p.all(), p.ahead(), "v[i][d]*s[i][j]"))
	}
	o := pointer("o")
	v := pointer("v")
	s := pointer("s")
	alpha := pointer("alpha")
	keys := pointer("keys")
	dim := pointer("dim")
	next := pointer("next")
	stride := GP64()
	left := GP64()
	MOVQ(dim, stride)
	SHLQ(U8(2), stride)
	MOVQ(dim, left)
	p.tiles(left, func(tile int, l func(string) string) {
		for j := range p.columns {
			VMOVUPS(p.column(alpha, j), p.line(j))
		}
		p.accumulators(tile, func(i, j int, a reg.VecPhysical) {
			VMULPS(Mem{Base: o, Disp: i*p.step() + j*p.bytes()}, p.line(j), a)
		})
		row := GP64()
		line := GP64()
		n := GP64()
		MOVQ(v, row)
		MOVQ(s, line)
		MOVQ(keys, n)
		var words []Mem
		for i := range tile {
			words = append(words, Mem{Base: row, Disp: 4 * i})
		}
		Label(l("term"))
		p.accumulate(words, line, next)
		ADDQ(stride, row)
		ADDQ(U32(p.step()), line)
		avx.Again(n, l("term"))
		p.accumulators(tile, func(i, j int, a reg.VecPhysical) {
			VMOVUPS(a, Mem{Base: o, Disp: i*p.step() + j*p.bytes()})
		})
		ADDQ(U32(tile*p.step()), o)
		ADDQ(U8(4*tile), v)
	})
}

// softmax generates the step of the online softmax.
func (p panel) softmax() {
	lanes := strconv.Itoa(p.all())
	p.text("softmax"+p.name, "(s, top, sum, alpha *float32, keys int)",
		softmaxDoc(lanes, "s is [keys, "+lanes+"]."))
	s := pointer("s")
	top := pointer("top")
	sum := pointer("sum")
	alpha := pointer("alpha")
	keys := pointer("keys")
	var m []Op
	for j := range p.columns {
		m = append(m, p.load(p.column(top, j)))
	}
	line := GP64()
	n := GP64()
	MOVQ(s, line)
	MOVQ(keys, n)
	Label("max")
	for j := range m {
		VMAXPS(p.column(line, j), m[j], m[j])
	}
	ADDQ(U32(p.step()), line)
	avx.Again(n, "max")
	for j := range m {
		a := kernels{p.width}.newExp2(exp2Coefficients).of(p.sub(p.load(p.column(top, j)), m[j]))
		VMOVUPS(m[j], p.column(top, j))
		VMOVUPS(a, p.column(alpha, j))
		VMULPS(p.column(sum, j), a, a)
		VMOVUPS(a, p.column(sum, j))
	}
	e := kernels{p.width}.newExp2(exp2Coefficients)
	for j := range m { // one column at a time leaves registers for the constants
		label := fmt.Sprintf("exp%d", j)
		MOVQ(s, line)
		MOVQ(keys, n)
		total := p.load(p.column(sum, j))
		Label(label)
		w := e.of(p.sub(p.load(p.column(line, j)), m[j]))
		VMOVUPS(w, p.column(line, j))
		VADDPS(w, total, total)
		ADDQ(U32(p.step()), line)
		avx.Again(n, label)
		VMOVUPS(total, p.column(sum, j))
	}
	ret()
}
