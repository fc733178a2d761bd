package vec

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// fixed generates attention's scores from 16-bit integers, which need AVX512_VNNI, and the softmax
// whose weights are bfloat16.
func fixed() {
	w := widths[1]
	for _, p := range w.panels() {
		p.words = integers
		p.scores()
	}
	w.softmaxFixed()
	w.fixRows()
	w.fixLanes()
}

// leastFixed keeps the scale of zeros finite.
const leastFixed = 1e-30

// round has x*scale, to nearest even, in the low 16 bits of each lane: the sum with 1.5*2^23 has no
// fraction.
func (w width) round(x Mem, scale Op) Op {
	r := w.k(3 << 22)
	VFMADD231PS(x, scale, r)
	return r
}

// lowHalves is the order of VPERMT2W that puts the low halves of two registers' lanes one after the
// other, or by turns.
func lowHalves(name string, turns bool) Mem {
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := range 16 {
		low := 4 * i
		high := 4*i + 2
		if turns {
			low = 2 * i
			high = 32 + 2*i
		}
		DATA(4*i, U32(uint32(low)|uint32(high)<<16))
	}
	return m
}

// fixRows generates the integers of keys. Maxima are of the bits, so that NaN is the largest.
func (w width) fixRows() {
	w.text("fixRows", "(dst, scale, x *float32, rows, lines int, limit, unit float32)",
		"for i := range rows {\n\tm := max(1e-30, abs(x[i][j]) for j in range 16*lines)\n\tscale[i] = "+
			"m*unit\n\tfor j := range 16*lines { dst[i][j] = int16(x[i][j]*(limit/m)) }\n}\n\n"+
			"Rounded to nearest even. A row of dst is 8*lines words.")
	dst := pointer("dst")
	scales := pointer("scale")
	x := pointer("x")
	rows := pointer("rows")
	lines := pointer("lines")
	limit := Load(Param("limit"), XMM())
	unit := Load(Param("unit"), XMM())
	least := XMM()
	VMOVSS(single(math.Float32bits(leastFixed)), least)
	bits := w.spread(0x7fffffff)
	order := w.load(lowHalves("after", false))
	at := GP64()
	n := GP64()
	Label("row")
	m := w.zero()
	MOVQ(x, at)
	MOVQ(lines, n)
	Label("max")
	a := w.reg()
	w.and(Mem{Base: at}, bits, a)
	VPMAXUD(a, m, m)
	ADDQ(U8(64), at)
	avx.Again(n, "max")
	lane := topBits(m)
	VMAXSS(lane, least, lane) // NaN stays
	scale := XMM()
	quotient := XMM()
	VMULSS(unit, lane, scale)
	VMOVSS(scale, Mem{Base: scales})
	ADDQ(U8(4), scales)
	VDIVSS(lane, limit, quotient)
	inverse := w.reg()
	VBROADCASTSS(quotient, inverse)
	MOVQ(lines, n)
	Label("lines")
	SUBQ(U8(2), n)
	JLT(LabelRef("last"))
	both := w.round(Mem{Base: x}, inverse)
	VPERMT2W(w.round(Mem{Base: x, Disp: 64}, inverse), order, both)
	VMOVUPS(both, Mem{Base: dst})
	ADDQ(U8(128), x)
	ADDQ(U8(64), dst)
	JMP(LabelRef("lines"))
	Label("last")
	CMPQ(n, I8(-1))
	JNE(LabelRef("next"))
	VPMOVDW(w.round(Mem{Base: x}, inverse), Mem{Base: dst})
	ADDQ(U8(64), x)
	ADDQ(U8(32), dst)
	Label("next")
	avx.Again(rows, "row")
	ret()
}

// topBits returns a register whose four words are all the largest of m's 16: halves are compared
// with each other until one is left.
func topBits(m reg.VecVirtual) reg.VecVirtual {
	y := YMM()
	lane := XMM()
	VEXTRACTI64X4(U8(1), m, y)
	VPMAXUD(m.AsY(), y, y)
	VEXTRACTI128(U8(1), y, lane)
	VPMAXUD(y.AsX(), lane, lane)
	half := XMM()
	for _, order := range []uint8{0x4e, 0xb1} {
		VPSHUFD(U8(order), lane, half)
		VPMAXUD(half, lane, lane)
	}
	return lane
}

// fixLanes generates the integers of queries.
func (w width) fixLanes() {
	w.text("fixLanes", "(dst, scale, x *float32, pairs, stride int, limit, unit float32)",
		"for j := range 16 {\n\tm := max(1e-30, abs(x[i][j]) for i in range 2*pairs)\n\tscale[j] = "+
			"m*unit\n"+
			"\tfor i := range pairs { dst[i][j].lo, dst[i][j].hi = int16(x[2*i][j]*(limit/m)), "+
			"int16(x[2*i+1][j]*(limit/m)) }\n}\n\n"+
			"Rounded to nearest even. Rows of both are stride bytes apart.")
	dst := pointer("dst")
	scales := pointer("scale")
	x := pointer("x")
	pairs := pointer("pairs")
	stride := pointer("stride")
	limit := w.splat("limit")
	unit := w.splat("unit")
	bits := w.spread(0x7fffffff)
	at := GP64()
	n := GP64()
	m := w.zero()
	MOVQ(x, at)
	MOVQ(pairs, n)
	Label("max")
	for range 2 {
		a := w.reg()
		w.and(Mem{Base: at}, bits, a)
		VPMAXUD(a, m, m)
		ADDQ(stride, at)
	}
	avx.Again(n, "max")
	top := w.max(w.k(leastFixed), m) // NaN stays
	VMOVUPS(w.mul(top, unit), Mem{Base: scales})
	inverse := w.div(limit, top)
	order := w.load(lowHalves("turns", true))
	Label("pair")
	both := w.round(Mem{Base: x}, inverse)
	VPERMT2W(w.round(Mem{Base: x, Index: stride, Scale: 1}, inverse), order, both)
	VMOVUPS(both, Mem{Base: dst})
	ADDQ(stride, dst)
	LEAQ(Mem{Base: x, Index: stride, Scale: 2}, x)
	avx.Again(pairs, "pair")
	ret()
}

// roughCoefficients are of the polynomial of degree 3 nearest to exp2 on [-1/2, 1/2], relative
// error 8e-5: a weight is rounded to bfloat16 next, by 4e-3 at most.
var roughCoefficients = []float64{0.0551716698, 0.242611128, 0.693260986, 0.999928073}

// softmaxFixed generates the step of the online softmax over scores whose unit is a lane's own.
func (w width) softmaxFixed() {
	w.text("softmaxFixed", "(s, scale, top, sum, alpha *float32, pairs, stride int)",
		"for j := range 16 {\n\tm := top[j]\n\tfor i := range 2*pairs { m = max(m, s[i][j]*scale[j]) "+
			"}\n\talpha[j], top[j] = exp2(top[j]-m), m\n\tsum[j] *= alpha[j]\n"+
			"\tfor i := range pairs {\n\t\ta, b := exp2(s[2*i][j]*scale[j]-m), "+
			"exp2(s[2*i+1][j]*scale[j]-m)\n\t\tsum[j] += a + b\n\t\ts[i][j].lo, s[i][j].hi = bfloat16(a), "+
			"bfloat16(b)\n\t}\n}\n\n"+
			"Rows of s are stride bytes apart. exp2 is 0 below 2^-127, and good to 8e-5.")
	s := pointer("s")
	scale := pointer("scale")
	top := pointer("top")
	sum := pointer("sum")
	alpha := pointer("alpha")
	pairs := pointer("pairs")
	stride := pointer("stride")
	m := w.k(math.Inf(-1))
	odd := w.k(math.Inf(-1)) // two, as each waits for the one before
	line := GP64()
	n := GP64()
	MOVQ(s, line)
	MOVQ(pairs, n)
	Label("max")
	VMAXPS(Mem{Base: line}, m, m)
	VMAXPS(Mem{Base: line, Index: stride, Scale: 1}, odd, odd)
	LEAQ(Mem{Base: line, Index: stride, Scale: 2}, line)
	avx.Again(n, "max")
	unit := w.load(Mem{Base: scale})
	before := w.load(Mem{Base: top})
	m = w.max(w.mul(w.max(m, odd), unit), before)
	a := kernels{w}.newExp2(exp2Coefficients).of(w.sub(before, m))
	VMOVUPS(m, Mem{Base: top})
	VMOVUPS(a, Mem{Base: alpha})
	total := w.mul(a, Mem{Base: sum})
	e := kernels{w}.newExp2(roughCoefficients)
	order := w.load(interleave())
	MOVQ(s, line)
	Label("exp")
	a = e.of(w.fms(w.load(Mem{Base: line}), unit, m))
	b := e.of(w.fms(w.load(Mem{Base: line, Index: stride, Scale: 1}), unit, m))
	VADDPS(w.add(a, b), total, total)
	VMOVAPS(a, reg.Z29)
	VMOVAPS(b, reg.Z30)
	avx.RoundBothBF16(reg.Z31, reg.Z30, reg.Z29)
	VPERMW(reg.Z31, order, reg.Z31)
	VMOVUPS(reg.Z31, Mem{Base: s})
	LEAQ(Mem{Base: line, Index: stride, Scale: 2}, line)
	ADDQ(stride, s)
	avx.Again(pairs, "exp")
	VMOVUPS(total, Mem{Base: sum})
	ret()
}
