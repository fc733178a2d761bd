//go:build arm64 && !purego

package vec

import "unmask/internal/simd"

// The choice among assembly and plain Go. Rows are whole lines here.

const neon = Ops(simd.NEON)

func (o Ops) apply(f function, dst, x []float32) {
	if o != neon {
		apply(f, dst, x)
		return
	}
	to, from, n := at(dst), at(x), len(dst)
	switch f {
	case ofExp:
		expNEON(to, from, n)
	case ofGeluTanh:
		geluTanhNEON(to, from, n)
	case ofGeluErf:
		geluErfNEON(to, from, n)
	case ofSilu:
		siluNEON(to, from, n)
	case ofSinSquared:
		sinSquaredNEON(to, from, n)
	case ofRelu:
		reluNEON(to, from, n)
	case ofAdd:
		addNEON(to, from, n)
	case ofMultiply:
		multiplyNEON(to, from, n)
	case ofMaximum:
		maximumNEON(to, from, n)
	}
}

func (o Ops) sum(x []float32) float32 {
	if o == neon {
		return sumNEON(at(x), len(x))
	}
	return sum(x)
}

func (o Ops) sumSquares(x []float32, mean float32) float32 {
	if o == neon {
		return sumSquaresNEON(at(x), len(x), mean)
	}
	return sumSquares(x, mean)
}

func (o Ops) normalize(dst, x, scale, shift []float32, mean, inverse float32) {
	a, as := constant(scale, &ones)
	b, bs := constant(shift, &zeros)
	if o == neon {
		normalizeNEON(at(dst), at(x), a, b, as, bs, len(x), mean, inverse)
	} else {
		normalize(dst, x, scale, shift, mean, inverse)
	}
}

func (o Ops) logits(x, bias []float32, scale float32) float32 {
	b, step := constant(bias, &zeros)
	if o == neon {
		return logitsNEON(at(x), b, step, len(x), scale)
	}
	return logits(x, bias, scale)
}

func (o Ops) sumExp(x []float32, c, top float32) float32 {
	if o == neon {
		s, _ := sumExpNEON(at(x), len(x), c, top)
		return s
	}
	return sumExp(x, c, top)
}

func (o Ops) sumExps(x []float32, c, top float32) (float32, float32) {
	return o.sumExp(x, 1, top), o.sumExp(x, c, top)
}

func (o Ops) sumExpDot(x []float32, top float32) (float32, float32) {
	if o == neon {
		return sumExpNEON(at(x), len(x), 1, top)
	}
	return sumExpDot(x, top)
}

func (o Ops) leaders(x []float32, top float32) (second float32, count, first int) {
	if o == neon {
		return leadersNEON(at(x), len(x), top)
	}
	return leaders(x, top)
}

func (o Ops) weights(dst, x []float32, c, top float32) {
	if o == neon {
		weightsNEON(at(dst), at(x), len(x), c, top)
	} else {
		weights(dst, x, c, top)
	}
}

func (o Ops) modulate(x, scale, shift []float32) {
	if o == neon {
		modulateNEON(at(x), at(scale), at(shift), len(x))
	} else {
		modulate(x, scale, shift)
	}
}

func (o Ops) affine(dst, x, scale, shift []float32, pixels int) {
	if o == neon {
		affineNEON(&dst[0], &x[0], &scale[0], &shift[0], len(scale), pixels)
	} else {
		affine(dst, x, scale, shift, pixels)
	}
}

func (o Ops) mulAdd(dst, x, y []float32) {
	if o == neon {
		mulAddNEON(at(dst), at(x), at(y), len(dst))
	} else {
		mulAdd(dst, x, y)
	}
}

func (o Ops) rotate(dst, x, cos, sin []float32) {
	if o == neon {
		rotateNEON(at(dst), at(x), at(cos), at(sin), len(cos))
	} else {
		rotate(dst, x, cos, sin)
	}
}

func (o Ops) columnSums(dst, x []float32, stride, pixels int) {
	if len(x) == 0 {
		return
	}
	if o == neon {
		columnSumsNEON(&dst[0], &x[0], 4*stride, pixels)
	} else {
		columnSums(dst, x, stride, pixels)
	}
}

func (o Ops) columnSquares(dst, x, mean []float32, stride, pixels int) {
	if len(x) == 0 {
		return
	}
	if o == neon {
		columnSquaresNEON(&dst[0], &x[0], &mean[0], 4*stride, pixels)
	} else {
		columnSquares(dst, x, mean, stride, pixels)
	}
}

func (p Panel) scores(s, k, q []float32, keys, dim int, next uintptr) {
	switch p {
	case Panel{neon, 3}:
		scoresWideNEON(&s[0], &k[0], &q[0], keys, dim, next)
	case Panel{neon, 1}:
		scoresNarrowNEON(&s[0], &k[0], &q[0], keys, dim, next)
	default:
		scores(s, k, q, keys, dim, p.Lanes())
	}
}

func (p Panel) softmax(s, top, sum, alpha []float32, keys int) {
	if p.ops == neon {
		softmaxNEON(&s[0], &top[0], &sum[0], &alpha[0], keys, p.Lanes())
	} else {
		softmax(s, top, sum, alpha, keys, p.Lanes())
	}
}

func (p Panel) values(o, v, s, alpha []float32, keys, dim int, next uintptr) {
	switch p {
	case Panel{neon, 3}:
		valuesWideNEON(&o[0], &v[0], &s[0], &alpha[0], keys, dim, next)
	case Panel{neon, 1}:
		valuesNarrowNEON(&o[0], &v[0], &s[0], &alpha[0], keys, dim, next)
	default:
		values(o, v, s, alpha, keys, dim, p.Lanes())
	}
}

func (o Ops) transpose(dst, src []float32, scale *[8]float32, dstStride, srcStride, dstStep,
	srcStep, blocks int) {
	if o == neon {
		transposeNEON(&dst[0], &src[0], &scale[0], 4*dstStride, 4*srcStride, 4*dstStep, 4*srcStep, blocks)
	} else {
		transpose(dst, src, scale, dstStride, srcStride, dstStep, srcStep, blocks)
	}
}
