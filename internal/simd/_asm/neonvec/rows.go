package main

import (
	"math"

	"unmask/internal/simd/_asm/neon"
)

// reduce folds 16 virtual lanes by halves: lane i with i+8, then i+4, i+2, i+1. Lane 0 is the
// result.
func (k kernel) reduce(acc []neon.V, into func(sum, x neon.V)) neon.V {
	into(acc[0], acc[2])
	into(acc[1], acc[3])
	into(acc[0], acc[1])
	into(acc[0], k.HighHalf(acc[0]))
	into(acc[0], k.Broadcast(acc[0], 1))
	return acc[0]
}

// shifted is max(-104, c*(x-top)).
func (k kernel) shifted(x, c, top neon.V) neon.V {
	return k.FMax(k.K(-104), k.FMul(k.FSub(x, top), c))
}

// reductions writes sums and maxima over a row.
func reductions(file *neon.File) {
	const tail = "\n\nn is a multiple of 16. Lane i%16 has its own sum; then lane i is added to i+8, " +
		"i+4, i+2, i+1 in turn."

	write(file, "sum", "(x *float32, n int) float32",
		"\tfor i := range n { s += x[i] }; return s"+tail, func(k kernel) {
			x, n := k.Param("x"), k.Param("n")
			acc := k.zeros(4)
			k.lines(n, []neon.R{x}, func() {
				for i, v := range k.line(x) {
					k.AddTo(acc[i], v)
				}
			})
			k.Return(k.reduce(acc, k.AddTo))
		})

	write(file, "sumSquares", "(x *float32, n int, mean float32) float32",
		"\tfor i := range n { s += (x[i]-mean)*(x[i]-mean) }; return s"+tail, func(k kernel) {
			x, n, mean := k.Param("x"), k.Param("n"), k.Splat("mean")
			acc := k.zeros(4)
			k.lines(n, []neon.R{x}, func() {
				for i, v := range k.line(x) {
					d := k.FSub(v, mean)
					k.FMLA(acc[i], d, d)
				}
			})
			k.Return(k.reduce(acc, k.AddTo))
		})

	write(file, "logits", "(x, bias *float32, step, n int, scale float32) float32",
		"\tfor i := range n { x[i] = (x[i]+bias[i])*scale; top = max(top, x[i]) }; return top\n\n"+
			"n is a multiple of 16. bias advances by step bytes for each 16. The "+
			"maximum is undefined if x has NaN.", func(k kernel) {
			x, bias, step, n, scale := k.Param("x"), k.Param("bias"), k.Param("step"), k.Param("n"),
				k.Splat("scale")
			acc := k.copies(4, math.Inf(-1))
			k.lines(n, []neon.R{x}, func() {
				v, b := k.line(x), k.line(bias)
				for i := range v {
					v[i] = k.FMul(k.FAdd(v[i], b[i]), scale)
					k.MaxTo(acc[i], v[i])
				}
				k.StoreAll(v, at(x, 0))
				k.Add(step, bias)
			})
			k.Return(k.reduce(acc, k.MaxTo))
		})

	const shifted = "d := c*(x[i]-top); e := exp(d)"
	write(file, "sumExpBoth", "(x *float32, n int, c, top float32) (s, t float32)",
		"\tfor i := range n { "+shifted+"; s += e; t += e*d }; return s, t"+tail, func(k kernel) {
			x, n, c, top := k.Param("x"), k.Param("n"), k.Splat("c"), k.Splat("top")
			acc, dot := k.zeros(4), k.zeros(4)
			k.lines(n, []neon.R{x}, func() {
				for i := range acc {
					d := k.shifted(k.Load(at(x, i)), c, top)
					e := k.value(k.exp(d, none))
					k.AddTo(acc[i], e)
					k.FMLA(dot[i], d, e)
				}
			})
			k.Return(k.reduce(acc, k.AddTo), k.reduce(dot, k.AddTo))
		})

	leaders(file)

	write(file, "weights", "(dst, x *float32, n int, c, top float32)",
		"\tfor i := range n { "+shifted+"; dst[i] = e }\n\nn is a multiple of 4.", func(k kernel) {
			dst, x, n, c, top := k.Param("dst"), k.Param("x"), k.Param("n"), k.Splat("c"), k.Splat("top")
			k.Each(n, 4, func() {
				d := k.shifted(k.Load(neon.Mem{Base: x, Off: 16, Post: true}), c, top)
				k.Store(k.value(k.exp(d, none)), neon.Mem{Base: dst, Off: 16, Post: true})
			})
			k.Return()
		})
}

// leaders writes the search for a row's two largest. What equals the maximum is rare, so it is
// counted one by one, beside the loop.
func leaders(file *neon.File) {
	write(file, "leaders", "(x *float32, n int, top float32) (second float32, count, first int)",
		"\tsecond, first = -Inf, -1\n\tfor i := range n {\n\t\tif x[i] == top { count++; if first < 0 { "+
			"first = i } } else { second = max(second, x[i]) }\n\t}\n\treturn second, count, first\n\n"+
			"n is a multiple of 16. The maximum is undefined if x has NaN.", func(k kernel) {
			x, n, top := k.Param("x"), k.Param("n"), k.Splat("top")
			count, first, at, any, lane := k.R(), k.R(), k.R(), k.R(), k.R()
			k.Set(0, count)
			k.Set(-1, first)
			k.Set(0, at)
			second := k.copies(4, math.Inf(-1))
			k.Each(n, 16, func() {
				var equal [4]neon.V
				for i, v := range k.line(x) {
					equal[i] = k.Equal(v, top)
					k.Insert(second[i], v, k.Or(k.Greater(second[i], v), equal[i]))
				}
				found := k.Or(k.Or(equal[0], equal[1]), k.Or(equal[2], equal[3]))
				k.Low(k.Or(found, k.HighHalf(found)), any)
				k.IfZero(any, "next")
				k.Set(0, lane)
				k.Label("lane")
				k.BranchUnlessEqual(k.LoadScalar(neon.Mem{Base: x, Off: 4, Post: true}), top, "other")
				k.Advance(count, 1)
				k.Compare(first, 0)
				k.Branch("GE", "other")
				k.Sum(at, lane, first)
				k.Label("other")
				k.Advance(lane, 1)
				k.Compare(lane, 16)
				k.Branch("NE", "lane")
				k.Advance(x, -64)
				k.Label("next")
				k.Advance(x, 64)
				k.Advance(at, 16)
			})
			k.Results(k.reduce(second, k.MaxTo), count, first)
		})
}

// elementwise writes products and sums of rows.
func elementwise(file *neon.File) {
	write(file, "normalize",
		"(dst, x, scale, shift *float32, scaleStep, shiftStep, n int, mean, inverse float32)",
		"\tfor i := range n { dst[i] = (x[i]-mean)*inverse*scale[i] + shift[i] }\n\n"+
			"n is a multiple of 16. scale and shift advance by their steps, in bytes, for each 16.",
		func(k kernel) {
			dst, x, scale, shift := k.Param("dst"), k.Param("x"), k.Param("scale"), k.Param("shift")
			scaleStep, shiftStep, n := k.Param("scaleStep"), k.Param("shiftStep"), k.Param("n")
			mean, inverse := k.Splat("mean"), k.Splat("inverse")
			k.lines(n, []neon.R{dst, x}, func() {
				v, a, b := k.line(x), k.line(scale), k.line(shift)
				for i := range v {
					k.FMLA(b[i], k.FMul(k.FSub(v[i], mean), inverse), a[i])
				}
				k.StoreAll(b, at(dst, 0))
				k.Add(scaleStep, scale)
				k.Add(shiftStep, shift)
			})
			k.Return()
		})

	write(file, "modulate", "(x, scale, shift *float32, n int)",
		"\tfor i := range n { x[i] = x[i]*(1+scale[i]) + shift[i] }\n\nn is a multiple of 16.",
		func(k kernel) {
			x, scale, shift, n := k.Param("x"), k.Param("scale"), k.Param("shift"), k.Param("n")
			one := k.K(1)
			k.lines(n, []neon.R{x, scale, shift}, func() {
				v, a, b := k.line(x), k.line(scale), k.line(shift)
				for i := range v {
					k.FMLA(b[i], k.FAdd(a[i], one), v[i])
				}
				k.StoreAll(b, at(x, 0))
			})
			k.Return()
		})

	write(file, "affine", "(dst, x, scale, shift *float32, n, pixels int)",
		"\tfor p := range pixels { for i := range n { dst[p*n+i] = x[p*n+i]*scale[i] + shift[i] } "+
			"}\n\nn is a multiple of 16; each operation rounds.", func(k kernel) {
			dst, x, scale, shift := k.Param("dst"), k.Param("x"), k.Param("scale"), k.Param("shift")
			n, pixels := k.Param("n"), k.Param("pixels")
			a, b, left := k.R(), k.R(), k.R()
			k.Label("pixel")
			k.Move(scale, a)
			k.Move(shift, b)
			k.Move(n, left)
			k.lines(left, []neon.R{dst, x, a, b}, func() {
				v, scales, shifts := k.line(x), k.line(a), k.line(b)
				for i := range v {
					v[i] = k.FAdd(k.FMul(v[i], scales[i]), shifts[i])
				}
				k.StoreAll(v, at(dst, 0))
			})
			k.Decrease(pixels, 1)
			k.Branch("NE", "pixel")
			k.Return()
		})

	write(file, "mulAdd", "(dst, x, y *float32, n int)",
		"\tfor i := range n { dst[i] += x[i]*y[i] }\n\nn is a multiple of 16.", func(k kernel) {
			dst, x, y, n := k.Param("dst"), k.Param("x"), k.Param("y"), k.Param("n")
			k.lines(n, []neon.R{dst, x, y}, func() {
				d, a, b := k.line(dst), k.line(x), k.line(y)
				for i := range d {
					k.FMLA(d[i], a[i], b[i])
				}
				k.StoreAll(d, at(dst, 0))
			})
			k.Return()
		})

	for _, f := range []struct {
		name, doc string
		into      func(k kernel, d, x neon.V)
	}{
		{"add", "dst[i] += x[i]", func(k kernel, d, x neon.V) { k.AddTo(d, x) }},
		{"maximum", "dst[i] = max(dst[i], x[i])", func(k kernel, d, x neon.V) { k.MaxTo(d, x) }},
		{"multiply", "dst[i] *= x[i]", func(k kernel, d, x neon.V) { k.MulTo(d, x) }},
	} {
		write(file, f.name, "(dst, x *float32, n int)",
			"\tfor i := range n { "+f.doc+" }\n\nn is a multiple of 16.", func(k kernel) {
				dst, x, n := k.Param("dst"), k.Param("x"), k.Param("n")
				k.lines(n, []neon.R{dst, x}, func() {
					d, v := k.line(dst), k.line(x)
					for i := range d {
						f.into(k, d[i], v[i])
					}
					k.StoreAll(d, at(dst, 0))
				})
				k.Return()
			})
	}

	write(file, "rotate", "(dst, x, cos, sin *float32, half int)",
		"\tfor i := range half {\n\t\ta, b := x[i], x[i+half]\n\t\tdst[i], dst[i+half] = "+
			"a*cos[i]-b*sin[i], a*sin[i]+b*cos[i]\n\t}\n\nhalf is a multiple of 4.", func(k kernel) {
			dst, x, cos, sin, half := k.Param("dst"), k.Param("x"), k.Param("cos"), k.Param("sin"),
				k.Param("half")
			dst2, x2 := k.R(), k.R()
			k.AddShifted(half, 2, dst, dst2)
			k.AddShifted(half, 2, x, x2)
			next := func(r neon.R) neon.Mem { return neon.Mem{Base: r, Off: 16, Post: true} }
			k.Each(half, 4, func() {
				a, b, c, s := k.Load(next(x)), k.Load(next(x2)), k.Load(next(cos)), k.Load(next(sin))
				first := k.FMLA(k.FNeg(k.FMul(b, s)), a, c)
				second := k.FMLA(k.FMul(b, c), a, s)
				k.Store(first, next(dst))
				k.Store(second, next(dst2))
			})
			k.Return()
		})
}

// columns writes sums over pixels of 16 channels.
func columns(file *neon.File) {
	const tail = "\n\nFor i in 0..15; the pixels are stride bytes apart."
	write(file, "columnSums", "(dst, x *float32, stride, pixels int)",
		"\tfor p := range pixels { dst[i] += x[p][i] }, from 0"+tail, func(k kernel) {
			dst, x, stride, n := k.Param("dst"), k.Param("x"), k.Param("stride"), k.Param("pixels")
			acc := k.zeros(4)
			k.Repeat(n, "loop", func() {
				for i, v := range k.line(x) {
					k.AddTo(acc[i], v)
				}
				k.Add(stride, x)
			})
			k.StoreAll(acc, at(dst, 0))
			k.Return()
		})

	write(file, "columnSquares", "(dst, x, mean *float32, stride, pixels int)",
		"\tfor p := range pixels { d := x[p][i]-mean[i]; dst[i] += d*d }, from 0"+tail, func(k kernel) {
			dst, x, mean, stride, n := k.Param("dst"), k.Param("x"), k.Param("mean"), k.Param("stride"),
				k.Param("pixels")
			acc, m := k.zeros(4), k.line(mean)
			k.Repeat(n, "loop", func() {
				for i, v := range k.line(x) {
					d := k.FSub(v, m[i])
					k.FMLA(acc[i], d, d)
				}
				k.Add(stride, x)
			})
			k.StoreAll(acc, at(dst, 0))
			k.Return()
		})
}

// transpose writes a transposition of 8x8 blocks.
func transpose(file *neon.File) {
	write(file, "transpose",
		"(dst, src, scale *float32, dstStride, srcStride, dstStep, srcStep, blocks int)",
		"\tfor range blocks {\n\t\tfor i := range 8 { for j := range 8 { dst[j][i] = src[i][j]*scale[j] "+
			"} }\n\t\tdst, src = dst+dstStep, src+srcStep\n\t}\n\n"+
			"Rows are strides apart; strides and steps are in bytes.", func(k kernel) {
			dst, src, factors := k.Param("dst"), k.Param("src"), k.Param("scale")
			dstStride, srcStride, dstStep, srcStep := k.Param("dstStride"), k.Param("srcStride"),
				k.Param("dstStep"), k.Param("srcStep")
			blocks, from, to := k.Param("blocks"), k.R(), k.R()
			scale := k.Vs(2)
			k.LoadAll(at(factors, 0), scale)
			k.Repeat(blocks, "loop", func() {
				k.Move(src, from)
				k.Move(dst, to)
				var rows [2][8]neon.V // of the left and right halves
				for i := range 8 {
					v := k.Vs(2)
					k.LoadAll(at(from, 0), v)
					k.Add(srcStride, from)
					for h := range v {
						rows[h][i] = k.FMul(v[h], scale[h])
					}
				}
				for _, half := range rows {
					top, bottom := k.Turn([4]neon.V(half[:4])), k.Turn([4]neon.V(half[4:]))
					for j := range top {
						k.StorePair(top[j], bottom[j], at(to, 0))
						k.Add(dstStride, to)
					}
				}
				k.Add(dstStep, dst)
				k.Add(srcStep, src)
			})
			k.Return()
		})
}
