package vec

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// leaders: what equals the maximum is rare, so it is counted outside the loop's straight path.
func (w width) leaders() {
	x := pointer("x")
	n := pointer("n")
	top := w.splat("top")
	second := w.k(math.Inf(-1))
	count := GP64()
	first := GP64()
	at := GP64()
	XORQ(count, count)
	MOVQ(I32(-1), first)
	XORQ(at, at)
	mask := GP32()
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("loop")
	v := w.load(Mem{Base: x, Index: at, Scale: 4})
	if w.lanes == 16 {
		k := K()
		VCMPPS(U8(4), top, v, k)
		VMAXPS(v, second, k, second)
		KMOVW(k, mask)
		XORL(U32(0xffff), mask)
	} else {
		equal := w.reg()
		rest := w.reg()
		VCMPPS(U8(0), top, v, equal)
		VBLENDVPS(equal, second, v, rest)
		VMAXPS(rest, second, second)
		VMOVMSKPS(equal, mask)
		TESTL(mask, mask)
	}
	JNZ(LabelRef("equal"))
	Label("next")
	ADDQ(U8(w.lanes), at)
	CMPQ(at, n)
	JNE(LabelRef("loop"))
	Label("done")
	result, err := Return("second").Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(w.top([]Op{second, second}), result.Addr)
	Store(count, Return("count"))
	Store(first, Return("first"))
	avx.Return()

	Label("equal")
	many := GP32()
	place := GP32()
	POPCNTL(mask, many)
	ADDQ(many.As64(), count)
	TESTQ(first, first)
	JNS(LabelRef("next"))
	BSFL(mask, place)
	MOVQ(at, first)
	ADDQ(place.As64(), first)
	JMP(LabelRef("next"))
}

// transposed has 8 lanes in all widths: pairs, then quads of rows, then halves.
func (w width) transposed() {
	dst := pointer("dst")
	src := pointer("src")
	dstStride := pointer("dstStride")
	srcStride := pointer("srcStride")
	scale := w.load(Mem{Base: pointer("scale")})
	blocks := pointer("blocks")
	from := strided(src, srcStride, 8)
	to := strided(dst, dstStride, 8)
	dstStep := pointer("dstStep")
	srcStep := pointer("srcStep")
	w.repeat(blocks, func() {
		var r, t [8]Op
		for i := range r {
			r[i] = w.mul(scale, from[i])
		}
		for i := 0; i < 8; i += 2 {
			t[i], t[i+1] = w.reg(), w.reg()
			VUNPCKLPS(r[i+1], r[i], t[i])
			VUNPCKHPS(r[i+1], r[i], t[i+1])
		}
		for i := 0; i < 8; i += 4 {
			for j := range 2 {
				r[i+2*j], r[i+2*j+1] = w.reg(), w.reg()
				VUNPCKLPD(t[i+j+2], t[i+j], r[i+2*j])
				VUNPCKHPD(t[i+j+2], t[i+j], r[i+2*j+1])
			}
		}
		for j := range 4 {
			low := w.reg()
			high := w.reg()
			VPERM2F128(U8(0x20), r[j+4], r[j], low)
			VPERM2F128(U8(0x31), r[j+4], r[j], high)
			VMOVUPS(low, to[j])
			VMOVUPS(high, to[j+4])
		}
		ADDQ(dstStep, dst)
		ADDQ(srcStep, src)
	})
}

// greater compares ordered and quiet: predicate 17 is b < a.
func (w width) greater(set, n Op, pointers []Op, compare func(at func(Op) Op) (a, b Op)) {
	Label("turn")
	if w.lanes == 16 {
		mask := K()
		w.line(func(_ int, at func(Op) Op) {
			a, b := compare(at)
			VCMPPS(U8(17), a, b, mask)
		})
		KMOVW(mask, Mem{Base: set.(reg.Register)})
	} else {
		var half [2]reg.GPVirtual
		w.line(func(i int, at func(Op) Op) {
			a, b := compare(at)
			mask := w.reg()
			half[i] = GP32()
			VCMPPS(U8(17), a, b, mask)
			VMOVMSKPS(mask, half[i])
		})
		SHLL(U8(8), half[1])
		ORL(half[0], half[1])
		MOVW(half[1].As16(), Mem{Base: set.(reg.Register)})
	}
	for _, p := range pointers {
		ADDQ(U8(64), p)
	}
	ADDQ(U8(2), set)
	SUBQ(U8(16), n)
	JNZ(LabelRef("turn"))
	ret()
}
