package vec

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// width is AVX2 or AVX-512.
type width struct {
	suffix string
	lanes  int
}

var widths = []width{{"AVX2", 8}, {"AVX512", 16}}

func (w width) bytes() int { return 4 * w.lanes }

func (w width) perLine() int { return 16 / w.lanes }

func (w width) reg() reg.VecVirtual { return avx.Register(w.bytes()) }

// regs are those of a line.
func (w width) regs() []Op {
	r := make([]Op, w.perLine())
	for i := range r {
		r[i] = w.reg()
	}
	return r
}

func (w width) text(name, signature, doc string) {
	TEXT(name+w.suffix, NOSPLIT, "func"+signature)
	kept = map[uint32]Op{}
	Doc(strings.Split(name+w.suffix+" "+describe(doc), "\n")...)
	Pragma("noescape")
}

// pointer is a parameter, for kernels of these machines alone.
var pointer = avx.Pointer

func (w width) pointer(name string) Op { return pointer(name) }
func (w width) splat(name string) Op   { return avx.Splat(name, w.bytes()) }

func (w width) load(m Op) Op {
	r := w.reg()
	VMOVUPS(m, r)
	return r
}

func (w width) store(x, m Op) { VMOVUPS(x, m) }
func (w width) fetch(m Op)    { PREFETCHT0(m) }

func (w width) advance(bytes, pointer Op) { ADDQ(bytes, pointer) }

// constants are the places of constants by their bits; singles are those that are only broadcast.
var constants, singles = map[uint32]Mem{}, map[uint32]Mem{}

// constant is the place of a constant given by its bits, 8 times over: an operand of AVX2.
func constant(u uint32) Mem {
	m, ok := constants[u]
	if !ok {
		m = GLOBL(fmt.Sprintf("c%08x", u), attr.RODATA|attr.NOPTR)
		for i := range 4 {
			DATA(8*i, U64(uint64(u)<<32|uint64(u)))
		}
		constants[u] = m
	}
	return m
}

// single is a place of a constant that is to be broadcast.
func single(u uint32) Mem {
	if m, ok := constants[u]; ok {
		return m
	}
	m, ok := singles[u]
	if !ok {
		m = GLOBL(fmt.Sprintf("w%08x", u), attr.RODATA|attr.NOPTR)
		DATA(0, U32(u))
		singles[u] = m
	}
	return m
}

// kept are the constants that the function at hand has in registers.
var kept map[uint32]Op

// keep is for AVX-512. In memory constants would cost a load each time, of two cache lines where
// the linker puts them across.
func (w width) keep(constants ...float64) {
	for _, f := range constants {
		if u := math.Float32bits(float32(f)); w.lanes == 16 && kept[u] == nil {
			kept[u] = w.spread(u)
		}
	}
}

// spread is a constant in a new register.
func (w width) spread(u uint32) reg.VecVirtual {
	r := w.reg()
	VBROADCASTSS(single(u), r)
	return r
}

// bits is a constant that may not be changed.
func (w width) bits(u uint32) Op {
	if r, ok := kept[u]; ok {
		return r
	}
	if w.lanes == 16 {
		return w.spread(u)
	}
	return constant(u)
}

func (w width) m(f float64) Op { return w.bits(math.Float32bits(float32(f))) }

func (w width) k(f float64) Op {
	if r, ok := kept[math.Float32bits(float32(f))]; ok {
		return w.copy(r)
	}
	return w.spread(math.Float32bits(float32(f)))
}

func (w width) zero() reg.VecVirtual {
	r := w.reg()
	w.xor(r, r, r)
	return r
}

func (w width) xor(a, b, dst Op) {
	if w.lanes == 16 {
		VPXORD(a, b, dst)
	} else {
		VXORPS(a, b, dst)
	}
}

func (w width) and(a, b, dst Op) {
	if w.lanes == 16 {
		VPANDD(a, b, dst)
	} else {
		VANDPS(a, b, dst)
	}
}

func (w width) add(a, b Op) Op { r := w.reg(); VADDPS(b, a, r); return r }
func (w width) sub(a, b Op) Op { r := w.reg(); VSUBPS(b, a, r); return r }
func (w width) mul(a, b Op) Op { r := w.reg(); VMULPS(b, a, r); return r }
func (w width) div(a, b Op) Op { r := w.reg(); VDIVPS(b, a, r); return r }

func (w width) max(a, b Op) Op { r := w.reg(); VMAXPS(b, a, r); return r }
func (w width) min(a, b Op) Op { r := w.reg(); VMINPS(b, a, r); return r }

func (w width) copy(a Op) Op {
	r := w.reg()
	if m, ok := a.(Mem); ok {
		VMOVUPS(m, r)
	} else {
		VMOVAPS(a, r)
	}
	return r
}

func (w width) fma(a, b, c Op) Op {
	if _, ok := b.(Mem); ok {
		r := w.copy(c)
		VFMADD231PS(b, a, r)
		return r
	}
	r := w.copy(a)
	VFMADD213PS(c, b, r)
	return r
}

func (w width) fnma(a, b, c Op) Op {
	r := w.copy(c)
	VFNMADD231PS(b, a, r)
	return r
}

func (w width) fms(a, b, c Op) Op {
	r := w.copy(a)
	VFMSUB132PS(b, c, r)
	return r
}

func (w width) next(p, x, c Op) Op { VFMADD213PS(c, x, p); return p }

func (w width) addTo(sum, x Op)    { VADDPS(x, sum, sum) }
func (w width) maxTo(top, x Op)    { VMAXPS(x, top, top) }
func (w width) fmaTo(sum, a, b Op) { VFMADD231PS(a, b, sum) }

func (w width) abs(x Op) Op {
	r := w.reg()
	w.and(w.bits(0x7fffffff), x, r)
	return r
}

func (w width) minus(x Op) Op {
	r := w.reg()
	w.xor(w.bits(0x80000000), x, r)
	return r
}

func (w width) relu(x Op) Op { return w.max(w.zero(), x) }

func (w width) negative(x, a, b Op) Op {
	r := w.reg()
	if w.lanes == 16 {
		m := K()
		VPMOVD2M(x, m)
		VMOVAPS(b, r)
		VMOVAPS(a, m, r)
	} else {
		VBLENDVPS(x, a, b, r)
	}
	return r
}

func (w width) word(bits uint32) Op   { return w.spread(bits) }
func (w width) right(x Op, by int) Op { r := w.reg(); VPSRLD(U8(by), x, r); return r }
func (w width) isub(a, b Op) Op       { r := w.reg(); VPSUBD(b, a, r); return r }
func (w width) float(x Op) Op         { r := w.reg(); VCVTDQ2PS(x, r); return r }

func (w width) exponents(n Op) any { return n }

// scale has an instruction with AVX-512. AVX2 takes two steps; the first is exact, because a
// caller's x is tiny only if n is 0.
func (w width) scale(x Op, n any) Op {
	if w.lanes == 16 {
		r := w.reg()
		VSCALEFPS(n.(Op), x, r)
		return r
	}
	i := w.reg()
	half := w.reg()
	VCVTPS2DQ(n.(Op), i)
	VPSRAD(U8(1), i, half)
	VPSUBD(half, i, i)
	return w.mul(w.mul(x, w.exponent(half)), w.exponent(i))
}

// exponent is 2^i.
func (w width) exponent(i reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	VPADDD(w.bits(127), i, r)
	VPSLLD(U8(23), r, r)
	return r
}

func (w width) scaleWhere(x, q Op, n any) Op {
	return w.scale(q, w.negative(x, n.(Op), w.zero()))
}

func (w width) power(t, p Op) Op {
	VPSLLD(U8(23), t, t)
	VMULPS(t, p, p)
	return p
}

func (w width) sum(line []Op) Op { return w.reduce(line, VADDPS) }
func (w width) top(line []Op) Op { return w.reduce(line, VMAXPS) }

func (w width) reduce(line []Op, op func(...Op)) Op {
	y := YMM()
	if w.lanes == 16 {
		high := YMM()
		VEXTRACTF64X4(U8(1), line[0], high)
		op(high, line[0].(reg.VecVirtual).AsY(), y)
	} else {
		op(line[1], line[0], y)
	}
	x := XMM()
	t := XMM()
	VEXTRACTF128(U8(1), y, x)
	op(x, y.AsX(), x)
	VMOVHLPS(x, x, t)
	op(t, x, x)
	VMOVSHDUP(x, t)
	op(t, x, x)
	return x
}

func (w width) zeros() []Op {
	line := w.regs()
	for _, r := range line {
		w.xor(r, r, r)
	}
	return line
}

func (w width) all(x float64) []Op {
	line := w.regs()
	for _, r := range line {
		VBROADCASTSS(single(math.Float32bits(float32(x))), r)
	}
	return line
}

func (w width) ret(results ...Op) { ret(results...) }

func ret(results ...Op) {
	for i, r := range results {
		m, err := ReturnIndex(i).Resolve()
		if err != nil {
			panic(err)
		}
		VMOVSS(r, m.Addr)
	}
	avx.Return()
}

// loop runs body n/2^shift times and advances each pointer by step bytes.
func loop(n Op, shift, step int, pointers []Op, body func()) {
	if shift > 0 {
		SHRQ(U8(shift), n)
	} else {
		TESTQ(n, n)
	}
	JZ(LabelRef("done"))
	Label("loop")
	body()
	for _, p := range pointers {
		ADDQ(U8(step), p)
	}
	avx.Again(n, "loop")
	Label("done")
}

func (w width) repeat(n Op, body func()) { loop(n, 0, 0, nil, body) }

func (w width) line(body func(i int, at func(Op) Op)) {
	for i := range w.perLine() {
		body(i, func(p Op) Op { return Mem{Base: p.(reg.Register), Disp: i * w.bytes()} })
	}
}

func (w width) lines(n Op, pointers []Op, body func(i int, at func(Op) Op)) {
	loop(n, 4, 64, pointers, func() { w.line(body) })
}

func (w width) each(n Op, pointers []Op, body func(at func(Op) Op)) {
	shift := 3
	if w.lanes == 16 {
		shift = 4
	}
	loop(n, shift, w.bytes(), pointers, func() {
		body(func(p Op) Op {
			if m, ok := p.(Mem); ok {
				return m
			}
			return Mem{Base: p.(reg.Register)}
		})
	})
}

func (w width) stream(n Op, pointers []Op, body func(at func(Op) Op)) { w.each(n, pointers, body) }

// beyond returns places: offset stays while the pointers move.
func (w width) beyond(n Op) func(pointer Op) Op {
	offset := GP64()
	MOVQ(n, offset)
	return func(p Op) Op { return Mem{Base: p.(reg.Register), Index: offset, Scale: 4} }
}

func (w width) rows(rows, n Op, places, strides []Op, begin func(), column func(line lineFunc)) {
	Label("row")
	begin()
	at := GP64()
	XORQ(at, at)
	Label("column")
	column(func(body func(i int, at func(Op) Op)) {
		for i := range w.perLine() {
			body(i, func(p Op) Op {
				return Mem{Base: p.(reg.Register), Index: at, Scale: 4, Disp: i * w.bytes()}
			})
		}
	})
	ADDQ(U8(16), at)
	CMPQ(at, n)
	JNE(LabelRef("column"))
	for i, stride := range strides {
		LEAQ(Mem{Base: places[i].(reg.Register), Index: stride.(reg.Register), Scale: 4}, places[i])
	}
	avx.Again(rows, "row")
}

func (w width) when(flag Op, name string, body func()) {
	TESTQ(flag, flag)
	JZ(LabelRef(name))
	body()
	Label(name)
}

func (w width) spreadNext(pointer Op) Op {
	r := w.reg()
	VBROADCASTSS(Mem{Base: pointer.(reg.Register)}, r)
	ADDQ(U8(4), pointer)
	return r
}
