package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reductions generates sums and maxima over a row, in 16 virtual lanes.
func (w width) reductions() {
	const tail = "\n\nn is a multiple of 16. Lane i%16 has its own sum; then lane i is added to i+8, " +
		"i+4, i+2, i+1 in turn."

	w.text("sum", "(x *float32, n int) float32", "for i := range n { s += x[i] }; return s"+tail)
	x, n := pointer("x"), pointer("n")
	acc := w.zeros()
	w.lines(n, []reg.Register{x},
		func(i int, at func(reg.Register) Mem) { VADDPS(at(x), acc[i], acc[i]) })
	ret(w.reduce(acc, addPS))

	w.text("sumSquares", "(x *float32, n int, mean float32) float32",
		"for i := range n { s += (x[i]-mean)*(x[i]-mean) }; return s"+tail)
	x, n = pointer("x"), pointer("n")
	mean := w.splat("mean")
	acc = w.zeros()
	w.lines(n, []reg.Register{x}, func(i int, at func(reg.Register) Mem) {
		d := w.sub(w.load(at(x)), mean)
		VFMADD231PS(d, d, acc[i])
	})
	ret(w.reduce(acc, addPS))

	w.text("logits", "(x, bias *float32, step, n int, scale float32) float32",
		"for i := range n { x[i] = (x[i]+bias[i])*scale; top = max(top, x[i]) }; return top\n\n"+
			"n is a multiple of 16. bias advances by step bytes for each 16. The "+
			"maximum is undefined if x has NaN.")
	x, n = pointer("x"), pointer("n")
	bias, step := pointer("bias"), pointer("step")
	scale := w.splat("scale")
	acc = w.regs(w.perLine())
	for _, a := range acc {
		VBROADCASTSS(constant(math.Float32bits(float32(math.Inf(-1)))), a)
	}
	w.lines(n, []reg.Register{x}, func(i int, at func(reg.Register) Mem) {
		v := w.mul(w.add(w.load(at(x)), w.load(at(bias))), scale)
		VMOVUPS(v, at(x))
		VMAXPS(v, acc[i], acc[i])
		if i == w.perLine()-1 {
			ADDQ(step, bias)
		}
	})
	ret(w.reduce(acc, maxPS))

	const shifted = "d := x[i]-top; e := exp(c*d)"
	w.text("sumExp", "(x *float32, n int, c, top float32) float32",
		"for i := range n { "+shifted+"; s += e }; return s"+tail)
	x, n = pointer("x"), pointer("n")
	c, top := w.splat("c"), w.splat("top")
	acc = w.zeros()
	w.keep(expConstants...)
	w.keep(-104)
	w.lines(n, []reg.Register{x}, func(i int, at func(reg.Register) Mem) {
		e := w.value(w.exp(w.shifted(at(x), c, top), nil))
		VADDPS(e, acc[i], acc[i])
	})
	ret(w.reduce(acc, addPS))

	w.text("sumExps", "(x *float32, n int, c, top float32) (s, t float32)",
		"for i := range n { d := x[i]-top; s += exp(d); t += exp(c*d) }; return s, t"+tail)
	x, n = pointer("x"), pointer("n")
	c, top = w.splat("c"), w.splat("top")
	acc = w.zeros()
	powers := w.zeros()
	w.keep(expConstants...)
	w.keep(-104)
	w.lines(n, []reg.Register{x}, func(i int, at func(reg.Register) Mem) {
		d := w.sub(w.load(at(x)), top)
		e := w.value(w.exp(w.max(w.k(-104), d), nil))
		VADDPS(e, acc[i], acc[i])
		e = w.value(w.exp(w.max(w.k(-104), w.mul(d, c)), nil))
		VADDPS(e, powers[i], powers[i])
	})
	ret(w.reduce(acc, addPS), w.reduce(powers, addPS))

	w.text("sumExpDot", "(x *float32, n int, top float32) (s, t float32)",
		"for i := range n { d := x[i]-top; e := exp(d); s += e; t += e*d }; return s, t"+tail)
	x, n = pointer("x"), pointer("n")
	top = w.splat("top")
	acc = w.zeros()
	dot := w.zeros()
	w.keep(expConstants...)
	w.keep(-104)
	w.lines(n, []reg.Register{x}, func(i int, at func(reg.Register) Mem) {
		d := w.shifted(at(x), nil, top)
		e := w.value(w.exp(d, nil))
		VADDPS(e, acc[i], acc[i])
		VFMADD231PS(d, e, dot[i])
	})
	ret(w.reduce(acc, addPS), w.reduce(dot, addPS))

	w.text("leaders", "(x *float32, n int, top float32) (second float32, count, first int)",
		"second, first = -Inf, -1\nfor i := range n {\n\tif x[i] == top { count++; if first < 0 { first "+
			"= i } } else { second = max(second, x[i]) }\n}\nreturn second, count, first\n\n"+
			"n is a multiple of 16. The maximum is undefined if x has NaN.")
	w.leaders()

	w.text("weights", "(dst, x *float32, n int, c, top float32)",
		"for i := range n { "+shifted+"; dst[i] = e }\n\nn is a multiple of 16.")
	dst, x, n := pointer("dst"), pointer("x"), pointer("n")
	c, top = w.splat("c"), w.splat("top")
	w.keep(expConstants...)
	w.keep(-104)
	w.each(n, []reg.Register{dst, x}, func() {
		VMOVUPS(w.value(w.exp(w.shifted(Mem{Base: x}, c, top), nil)), Mem{Base: dst})
	})
	ret()
}

// shifted is max(-104, c*(x-top)): e^-104 is 0.
func (w width) shifted(x Mem, c, top reg.VecVirtual) reg.VecVirtual {
	d := w.sub(w.load(x), top)
	if c != nil {
		d = w.mul(d, c)
	}
	return w.max(w.k(-104), d)
}

func (w width) zeros() []reg.VecVirtual {
	acc := w.regs(w.perLine())
	for _, a := range acc {
		w.xor(a, a, a)
	}
	return acc
}

// elementwise generates products and sums of rows.
func (w width) elementwise() {
	w.text("normalize", "(dst, x, scale, shift *float32, scaleStep, shiftStep, n int, mean, inverse "+
		"float32)",
		"for i := range n { dst[i] = (x[i]-mean)*inverse*scale[i] + shift[i] }\n\n"+
			"n is a multiple of 16. scale and shift advance by their steps, in bytes, for each 16.")
	dst, x, n := pointer("dst"), pointer("x"), pointer("n")
	scale, shift := pointer("scale"), pointer("shift")
	scaleStep, shiftStep := pointer("scaleStep"), pointer("shiftStep")
	mean, inverse := w.splat("mean"), w.splat("inverse")
	w.lines(n, []reg.Register{dst, x}, func(i int, at func(reg.Register) Mem) {
		v := w.mul(w.sub(w.load(at(x)), mean), inverse)
		VMOVUPS(w.fma(v, w.load(at(scale)), w.load(at(shift))), at(dst))
		if i == w.perLine()-1 {
			ADDQ(scaleStep, scale)
			ADDQ(shiftStep, shift)
		}
	})
	ret()

	w.text("modulate", "(x, scale, shift *float32, n int)",
		"for i := range n { x[i] = x[i]*(1+scale[i]) + shift[i] }\n\nn is a multiple of 16.")
	x, scale, shift, n = pointer("x"), pointer("scale"), pointer("shift"), pointer("n")
	one := w.k(1)
	w.each(n, []reg.Register{x, scale, shift}, func() {
		a := w.add(w.load(Mem{Base: scale}), one)
		VMOVUPS(w.fma(a, w.load(Mem{Base: x}), w.load(Mem{Base: shift})), Mem{Base: x})
	})
	ret()

	w.text("affine", "(dst, x, scale, shift *float32, n, pixels int)",
		"for p := range pixels { for i := range n { dst[p*n+i] = x[p*n+i]*scale[i] + shift[i] } }\n\nn "+
			"is a multiple of 16; each operation rounds.")
	dst, x = pointer("dst"), pointer("x")
	scale, shift, n = pointer("scale"), pointer("shift"), pointer("n")
	pixels := pointer("pixels")
	Label("pixel")
	at := GP64()
	XORQ(at, at)
	Label("channel")
	place := func(p reg.Register) Mem { return Mem{Base: p, Index: at, Scale: 4} }
	VMOVUPS(w.add(w.mul(w.load(place(x)), w.load(place(scale))), w.load(place(shift))), place(dst))
	ADDQ(U8(w.lanes), at)
	CMPQ(at, n)
	JNE(LabelRef("channel"))
	LEAQ(Mem{Base: x, Index: n, Scale: 4}, x)
	LEAQ(Mem{Base: dst, Index: n, Scale: 4}, dst)
	DECQ(pixels)
	JNZ(LabelRef("pixel"))
	ret()

	w.text("mulAdd", "(dst, x, y *float32, n int)",
		"for i := range n { dst[i] += x[i]*y[i] }\n\nn is a multiple of 16.")
	dst, x, y := pointer("dst"), pointer("x"), pointer("y")
	n = pointer("n")
	w.each(n, []reg.Register{dst, x, y}, func() {
		VMOVUPS(w.fma(w.load(Mem{Base: y}), w.load(Mem{Base: x}), w.load(Mem{Base: dst})), Mem{Base: dst})
	})
	ret()

	for _, f := range []struct {
		name, doc string
		op        func(a, b Op) reg.VecVirtual
	}{
		{"add", "dst[i] += x[i]", w.add},
		{"maximum", "dst[i] = max(dst[i], x[i])", w.max},
		{"multiply", "dst[i] *= x[i]", w.mul},
	} {
		w.text(f.name, "(dst, x *float32, n int)",
			"for i := range n { "+f.doc+" }\n\nn is a multiple of 16.")
		dst, x, n := pointer("dst"), pointer("x"), pointer("n")
		w.each(n, []reg.Register{dst, x}, func() {
			VMOVUPS(f.op(w.load(Mem{Base: dst}), w.load(Mem{Base: x})), Mem{Base: dst})
		})
		ret()
	}

	w.text("rotate", "(dst, x, cos, sin *float32, half int)",
		"for i := range half {\n\ta, b := x[i], x[i+half]\n\tdst[i], dst[i+half] = a*cos[i]-b*sin[i], "+
			"a*sin[i]+b*cos[i]\n}\n\nhalf is a multiple of the width.")
	dst, x = pointer("dst"), pointer("x")
	cos, sin, half := pointer("cos"), pointer("sin"), pointer("half")
	offset := GP64()
	MOVQ(half, offset)
	w.each(half, []reg.Register{dst, x, cos, sin}, func() {
		a, b := w.load(Mem{Base: x}), w.load(Mem{Base: x, Index: offset, Scale: 4})
		c, s := w.load(Mem{Base: cos}), w.load(Mem{Base: sin})
		VMOVUPS(w.fms(a, c, w.mul(b, s)), Mem{Base: dst})
		VMOVUPS(w.fma(a, s, w.mul(b, c)), Mem{Base: dst, Index: offset, Scale: 4})
	})
	ret()
}

// columns generates sums over pixels of 16 channels.
func (w width) columns() {
	const tail = "\n\nFor i in 0..15; the pixels are stride bytes apart."
	w.text("columnSums", "(dst, x *float32, stride, pixels int)",
		"for p := range pixels { dst[i] += x[p][i] }, from 0"+tail)
	dst, x, stride, n := pointer("dst"), pointer("x"), pointer("stride"), pointer("pixels")
	acc := w.zeros()
	loop(n, 0, 0, nil, func() {
		for i, a := range acc {
			VADDPS(Mem{Base: x, Disp: i * w.bytes()}, a, a)
		}
		ADDQ(stride, x)
	})
	for i, a := range acc {
		VMOVUPS(a, Mem{Base: dst, Disp: i * w.bytes()})
	}
	ret()

	w.text("columnSquares", "(dst, x, mean *float32, stride, pixels int)",
		"for p := range pixels { d := x[p][i]-mean[i]; dst[i] += d*d }, from 0"+tail)
	dst, x, stride, n = pointer("dst"), pointer("x"), pointer("stride"), pointer("pixels")
	m := pointer("mean")
	acc = w.zeros()
	var mean []reg.VecVirtual
	for i := range acc {
		mean = append(mean, w.load(Mem{Base: m, Disp: i * w.bytes()}))
	}
	loop(n, 0, 0, nil, func() {
		for i, a := range acc {
			d := w.sub(w.load(Mem{Base: x, Disp: i * w.bytes()}), mean[i])
			VFMADD231PS(d, d, a)
		}
		ADDQ(stride, x)
	})
	for i, a := range acc {
		VMOVUPS(a, Mem{Base: dst, Disp: i * w.bytes()})
	}
	ret()
}

// leaders is the body of the kernel of that name. What equals the maximum is rare, so it is counted
// outside the loop's straight path.
func (w width) leaders() {
	x, n := pointer("x"), pointer("n")
	top := w.splat("top")
	second := w.k(math.Inf(-1))
	count, first, at := GP64(), GP64(), GP64()
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
		equal, rest := w.reg(), w.reg()
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
	VMOVSS(w.reduce(w.both(second), maxPS), result.Addr)
	Store(count, Return("count"))
	Store(first, Return("first"))
	VZEROUPPER()
	RET()

	Label("equal")
	many, place := GP32(), GP32()
	POPCNTL(mask, many)
	ADDQ(many.As64(), count)
	TESTQ(first, first)
	JNS(LabelRef("next"))
	BSFL(mask, place)
	MOVQ(at, first)
	ADDQ(place.As64(), first)
	JMP(LabelRef("next"))
}

// both is one register of maxima as what reduce takes.
func (w width) both(v reg.VecVirtual) []reg.VecVirtual {
	if w.lanes == 16 {
		return []reg.VecVirtual{v}
	}
	return []reg.VecVirtual{v, v}
}
