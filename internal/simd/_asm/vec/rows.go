package vec

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// overRows writes sums, maxima and products over a row.
func (k kernels) overRows() {
	k.sums()
	k.logits()
	if k.perLine() < 4 {
		k.sumExp()
		k.sumExps()
		k.sumExpDot("sumExpDot", "(x *float32, n int, top float32) (s, t float32)", "")
	} else { // one for all three
		k.sumExpDot("sumExpBoth", "(x *float32, n int, c, top float32) (s, t float32)", "c")
	}
	k.text("leaders", "(x *float32, n int, top float32) (second float32, count, first int)",
		"second, first = -Inf, -1\nfor i := range n {\n\tif x[i] == top { count++; if first < 0 { first "+
			"= i } } else { second = max(second, x[i]) }\n}\nreturn second, count, first\n\n"+
			"n is a multiple of 16. The maximum is undefined if x has NaN.")
	k.leaders()
	k.weights()
	k.normalize()
	k.modulate()
	k.affine()
	k.elementwise()
	k.rotate()
	k.columns()
}

const inTurn = "\n\nn is a multiple of 16. Lane i%16 has its own sum; then lane i is added to i+8, " +
	"i+4, i+2, i+1 in turn."

func (k kernels) sums() {
	k.text("sum", "(x *float32, n int) float32", "for i := range n { s += x[i] }; return s"+inTurn)
	x := k.pointer("x")
	n := k.pointer("n")
	acc := k.zeros()
	k.lines(n, []Op{x}, func(i int, at func(Op) Op) { k.addTo(acc[i], at(x)) })
	k.ret(k.sum(acc))

	k.text("sumSquares", "(x *float32, n int, mean float32) float32",
		"for i := range n { s += (x[i]-mean)*(x[i]-mean) }; return s"+inTurn)
	x = k.pointer("x")
	n = k.pointer("n")
	mean := k.splat("mean")
	acc = k.zeros()
	k.lines(n, []Op{x}, func(i int, at func(Op) Op) {
		d := k.sub(k.load(at(x)), mean)
		k.fmaTo(acc[i], d, d)
	})
	k.ret(k.sum(acc))
}

func (k kernels) logits() {
	k.text("logits", "(x, bias *float32, step, n int, scale float32) float32",
		"for i := range n { x[i] = (x[i]+bias[i])*scale; top = max(top, x[i]) }; return top\n\n"+
			"n is a multiple of 16. bias advances by step bytes for each 16. The "+
			"maximum is undefined if x has NaN.")
	x := k.pointer("x")
	n := k.pointer("n")
	bias := k.pointer("bias")
	step := k.pointer("step")
	scale := k.splat("scale")
	acc := k.all(math.Inf(-1))
	k.lines(n, []Op{x}, func(i int, at func(Op) Op) {
		v := k.mul(k.add(k.load(at(x)), k.load(at(bias))), scale)
		k.store(v, at(x))
		k.maxTo(acc[i], v)
		if i == k.perLine()-1 {
			k.advance(step, bias)
		}
	})
	k.ret(k.top(acc))
}

const shifted = "d := x[i]-top; e := exp(c*d)"

func (k kernels) sumExp() {
	k.text("sumExp", "(x *float32, n int, c, top float32) float32",
		"for i := range n { "+shifted+"; s += e }; return s"+inTurn)
	x := k.pointer("x")
	n := k.pointer("n")
	c := k.splat("c")
	top := k.splat("top")
	acc := k.zeros()
	k.keepExp(-104)
	k.lines(n, []Op{x}, func(i int, at func(Op) Op) {
		k.addTo(acc[i], k.value(k.exp(k.shifted(at(x), c, top), nil)))
	})
	k.ret(k.sum(acc))
}

func (k kernels) sumExps() {
	k.text("sumExps", "(x *float32, n int, c, top float32) (s, t float32)",
		"for i := range n { d := x[i]-top; s += exp(d); t += exp(c*d) }; return s, t"+inTurn)
	x := k.pointer("x")
	n := k.pointer("n")
	c := k.splat("c")
	top := k.splat("top")
	acc := k.zeros()
	powers := k.zeros()
	k.keepExp(-104)
	k.lines(n, []Op{x}, func(i int, at func(Op) Op) {
		d := k.sub(k.load(at(x)), top)
		k.addTo(acc[i], k.value(k.exp(k.max(k.k(-104), d), nil)))
		k.addTo(powers[i], k.value(k.exp(k.max(k.k(-104), k.mul(d, c)), nil)))
	})
	k.ret(k.sum(acc), k.sum(powers))
}

// sumExpDot writes sums of e = exp(d) and e*d. factor is the name of what x-top is multiplied by,
// "" for nothing.
func (k kernels) sumExpDot(name, signature, factor string) {
	doc := "d := x[i]-top"
	if factor != "" {
		doc = "d := " + factor + "*(x[i]-top)"
	}
	k.text(name, signature,
		"for i := range n { "+doc+"; e := exp(d); s += e; t += e*d }; return s, t"+inTurn)
	x := k.pointer("x")
	n := k.pointer("n")
	var c Op
	if factor != "" {
		c = k.splat(factor)
	}
	top := k.splat("top")
	acc := k.zeros()
	dot := k.zeros()
	k.keepExp(-104)
	k.lines(n, []Op{x}, func(i int, at func(Op) Op) {
		d := k.shifted(at(x), c, top)
		e := k.value(k.exp(d, nil))
		k.addTo(acc[i], e)
		k.fmaTo(dot[i], d, e)
	})
	k.ret(k.sum(acc), k.sum(dot))
}

func (k kernels) weights() {
	k.text("weights", "(dst, x *float32, n int, c, top float32)",
		"for i := range n { "+shifted+"; dst[i] = e }\n\nn is a multiple of 16.")
	dst := k.pointer("dst")
	x := k.pointer("x")
	n := k.pointer("n")
	c := k.splat("c")
	top := k.splat("top")
	k.keepExp(-104)
	k.each(n, []Op{dst, x}, func(at func(Op) Op) {
		k.store(k.value(k.exp(k.shifted(at(x), c, top), nil)), at(dst))
	})
	k.ret()
}

// shifted is max(-104, c*(x-top)): e^-104 is 0.
func (k kernels) shifted(x, c, top Op) Op {
	d := k.sub(k.load(x), top)
	if c != nil {
		d = k.mul(d, c)
	}
	return k.max(k.k(-104), d)
}

func (k kernels) normalize() {
	k.text("normalize", "(dst, x, scale, shift *float32, scaleStep, shiftStep, n int, mean, inverse "+
		"float32)",
		"for i := range n { dst[i] = (x[i]-mean)*inverse*scale[i] + shift[i] }\n\n"+
			"n is a multiple of 16. scale and shift advance by their steps, in bytes, for each 16.")
	dst := k.pointer("dst")
	x := k.pointer("x")
	n := k.pointer("n")
	scale := k.pointer("scale")
	shift := k.pointer("shift")
	scaleStep := k.pointer("scaleStep")
	shiftStep := k.pointer("shiftStep")
	mean := k.splat("mean")
	inverse := k.splat("inverse")
	k.lines(n, []Op{dst, x}, func(i int, at func(Op) Op) {
		v := k.mul(k.sub(k.load(at(x)), mean), inverse)
		k.store(k.fma(v, k.load(at(scale)), k.load(at(shift))), at(dst))
		if i == k.perLine()-1 {
			k.advance(scaleStep, scale)
			k.advance(shiftStep, shift)
		}
	})
	k.ret()
}

func (k kernels) modulate() {
	k.text("modulate", "(x, scale, shift *float32, n int)",
		"for i := range n { x[i] = x[i]*(1+scale[i]) + shift[i] }\n\nn is a multiple of 16.")
	x := k.pointer("x")
	scale := k.pointer("scale")
	shift := k.pointer("shift")
	n := k.pointer("n")
	one := k.k(1)
	k.stream(n, []Op{x, scale, shift}, func(at func(Op) Op) {
		a := k.add(k.load(at(scale)), one)
		k.store(k.fma(a, k.load(at(x)), k.load(at(shift))), at(x))
	})
	k.ret()
}

func (k kernels) affine() {
	k.text("affine", "(dst, x, scale, shift *float32, n, pixels int)",
		"for p := range pixels { for i := range n { dst[p*n+i] = x[p*n+i]*scale[i] + shift[i] } }\n\nn "+
			"is a multiple of 16; each operation rounds.")
	dst := k.pointer("dst")
	x := k.pointer("x")
	scale := k.pointer("scale")
	shift := k.pointer("shift")
	n := k.pointer("n")
	pixels := k.pointer("pixels")
	k.rows(pixels, n, []Op{x, dst, scale, shift}, []Op{n, n}, func() {}, func(line lineFunc) {
		line(func(_ int, at func(Op) Op) {
			k.store(k.add(k.mul(k.load(at(x)), k.load(at(scale))), k.load(at(shift))), at(dst))
		})
	})
	k.ret()
}

func (k kernels) elementwise() {
	k.text("mulAdd", "(dst, x, y *float32, n int)",
		"for i := range n { dst[i] += x[i]*y[i] }\n\nn is a multiple of 16.")
	dst := k.pointer("dst")
	x := k.pointer("x")
	y := k.pointer("y")
	n := k.pointer("n")
	k.stream(n, []Op{dst, x, y}, func(at func(Op) Op) {
		k.store(k.fma(k.load(at(y)), k.load(at(x)), k.load(at(dst))), at(dst))
	})
	k.ret()

	for _, f := range []struct {
		name, doc string
		op        func(a, b Op) Op
	}{
		{"add", "dst[i] += x[i]", k.add},
		{"maximum", "dst[i] = max(dst[i], x[i])", func(a, b Op) Op { k.maxTo(a, b); return a }},
		{"multiply", "dst[i] *= x[i]", k.mul},
	} {
		k.text(f.name, "(dst, x *float32, n int)",
			"for i := range n { "+f.doc+" }\n\nn is a multiple of 16.")
		dst := k.pointer("dst")
		x := k.pointer("x")
		n := k.pointer("n")
		k.stream(n, []Op{dst, x}, func(at func(Op) Op) {
			k.store(f.op(k.load(at(dst)), k.load(at(x))), at(dst))
		})
		k.ret()
	}
}

func (k kernels) rotate() {
	k.text("rotate", "(dst, x, cos, sin *float32, half int)",
		"for i := range half {\n\ta, b := x[i], x[i+half]\n\tdst[i], dst[i+half] = a*cos[i]-b*sin[i], "+
			"a*sin[i]+b*cos[i]\n}\n\nhalf is a multiple of the width.")
	dst := k.pointer("dst")
	x := k.pointer("x")
	cos := k.pointer("cos")
	sin := k.pointer("sin")
	half := k.pointer("half")
	beyond := k.beyond(half)
	dst2 := beyond(dst)
	x2 := beyond(x)
	k.each(half, []Op{dst, x, cos, sin}, func(at func(Op) Op) {
		a := k.load(at(x))
		b := k.load(at(x2))
		c := k.load(at(cos))
		s := k.load(at(sin))
		k.store(k.fms(a, c, k.mul(b, s)), at(dst))
		k.store(k.fma(a, s, k.mul(b, c)), at(dst2))
	})
	k.ret()
}

// columns writes sums over pixels of 16 channels.
func (k kernels) columns() {
	const tail = "\n\nFor i in 0..15; the pixels are stride bytes apart."
	k.text("columnSums", "(dst, x *float32, stride, pixels int)",
		"for p := range pixels { dst[i] += x[p][i] }, from 0"+tail)
	dst := k.pointer("dst")
	x := k.pointer("x")
	stride := k.pointer("stride")
	n := k.pointer("pixels")
	acc := k.zeros()
	k.repeat(n, func() {
		k.line(func(i int, at func(Op) Op) { k.addTo(acc[i], at(x)) })
		k.advance(stride, x)
	})
	k.line(func(i int, at func(Op) Op) { k.store(acc[i], at(dst)) })
	k.ret()

	k.text("columnSquares", "(dst, x, mean *float32, stride, pixels int)",
		"for p := range pixels { d := x[p][i]-mean[i]; dst[i] += d*d }, from 0"+tail)
	dst = k.pointer("dst")
	x = k.pointer("x")
	stride = k.pointer("stride")
	n = k.pointer("pixels")
	m := k.pointer("mean")
	acc = k.zeros()
	var mean []Op
	k.line(func(i int, at func(Op) Op) { mean = append(mean, k.load(at(m))) })
	k.repeat(n, func() {
		k.line(func(i int, at func(Op) Op) {
			d := k.sub(k.load(at(x)), mean[i])
			k.fmaTo(acc[i], d, d)
		})
		k.advance(stride, x)
	})
	k.line(func(i int, at func(Op) Op) { k.store(acc[i], at(dst)) })
	k.ret()
}

// transpose writes a transposition of 8x8 blocks.
func (k kernels) transpose() {
	k.text("transpose", "(dst, src, scale *float32, dstStride, srcStride, dstStep, srcStep, blocks "+
		"int)",
		"for range blocks {\n\tfor i := range 8 { for j := range 8 { dst[j][i] = src[i][j]*scale[j] } "+
			"}\n\tdst, src = dst+dstStep, src+srcStep\n}\n\n"+
			"Rows are strides apart; strides and steps are in bytes.")
	k.transposed()
	k.ret()
}
