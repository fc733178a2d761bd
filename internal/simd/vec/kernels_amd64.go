//go:build amd64 && !purego

package vec

import "unmask/internal/simd"

// The choice among assembly and plain Go. Rows are whole lines here.

const (
	avx512 = Ops(simd.AVX512)
	avx2   = Ops(simd.AVX2)
)

func (o Ops) apply(f function, dst, x []float32) {
	if o != avx512 && o != avx2 {
		apply(f, dst, x)
		return
	}
	to, from, n := at(dst), at(x), len(dst)
	if o == avx512 {
		switch f {
		case ofExp:
			expAVX512(to, from, n)
		case ofGeluTanh:
			geluTanhAVX512(to, from, n)
		case ofGeluErf:
			geluErfAVX512(to, from, n)
		case ofSilu:
			siluAVX512(to, from, n)
		case ofSinSquared:
			sinSquaredAVX512(to, from, n)
		case ofRelu:
			reluAVX512(to, from, n)
		case ofAdd:
			addAVX512(to, from, n)
		case ofMultiply:
			multiplyAVX512(to, from, n)
		case ofMaximum:
			maximumAVX512(to, from, n)
		}
		return
	}
	switch f {
	case ofExp:
		expAVX2(to, from, n)
	case ofGeluTanh:
		geluTanhAVX2(to, from, n)
	case ofGeluErf:
		geluErfAVX2(to, from, n)
	case ofSilu:
		siluAVX2(to, from, n)
	case ofSinSquared:
		sinSquaredAVX2(to, from, n)
	case ofRelu:
		reluAVX2(to, from, n)
	case ofAdd:
		addAVX2(to, from, n)
	case ofMultiply:
		multiplyAVX2(to, from, n)
	case ofMaximum:
		maximumAVX2(to, from, n)
	}
}

func (o Ops) sum(x []float32) float32 {
	switch o {
	case avx512:
		return sumAVX512(at(x), len(x))
	case avx2:
		return sumAVX2(at(x), len(x))
	}
	return sum(x)
}

func (o Ops) sumSquares(x []float32, mean float32) float32 {
	switch o {
	case avx512:
		return sumSquaresAVX512(at(x), len(x), mean)
	case avx2:
		return sumSquaresAVX2(at(x), len(x), mean)
	}
	return sumSquares(x, mean)
}

func (o Ops) normalize(dst, x, scale, shift []float32, mean, inverse float32) {
	a, as := constant(scale, &ones)
	b, bs := constant(shift, &zeros)
	switch o {
	case avx512:
		normalizeAVX512(at(dst), at(x), a, b, as, bs, len(x), mean, inverse)
	case avx2:
		normalizeAVX2(at(dst), at(x), a, b, as, bs, len(x), mean, inverse)
	default:
		normalize(dst, x, scale, shift, mean, inverse)
	}
}

func (o Ops) logits(x, bias []float32, scale float32) float32 {
	b, step := constant(bias, &zeros)
	switch o {
	case avx512:
		return logitsAVX512(at(x), b, step, len(x), scale)
	case avx2:
		return logitsAVX2(at(x), b, step, len(x), scale)
	}
	return logits(x, bias, scale)
}

func (o Ops) sumExp(x []float32, c, top float32) float32 {
	switch o {
	case avx512:
		return sumExpAVX512(at(x), len(x), c, top)
	case avx2:
		return sumExpAVX2(at(x), len(x), c, top)
	}
	return sumExp(x, c, top)
}

func (o Ops) sumExps(x []float32, c, top float32) (float32, float32) {
	switch o {
	case avx512:
		return sumExpsAVX512(at(x), len(x), c, top)
	case avx2:
		return sumExpsAVX2(at(x), len(x), c, top)
	}
	return sumExp(x, 1, top), sumExp(x, c, top)
}

func (o Ops) sumExpDot(x []float32, top float32) (float32, float32) {
	switch o {
	case avx512:
		return sumExpDotAVX512(at(x), len(x), top)
	case avx2:
		return sumExpDotAVX2(at(x), len(x), top)
	}
	return sumExpDot(x, top)
}

func (o Ops) leaders(x []float32, top float32) (second float32, count, first int) {
	switch o {
	case avx512:
		return leadersAVX512(at(x), len(x), top)
	case avx2:
		return leadersAVX2(at(x), len(x), top)
	}
	return leaders(x, top)
}

func (o Ops) weights(dst, x []float32, c, top float32) {
	switch o {
	case avx512:
		weightsAVX512(at(dst), at(x), len(x), c, top)
	case avx2:
		weightsAVX2(at(dst), at(x), len(x), c, top)
	default:
		weights(dst, x, c, top)
	}
}

func (o Ops) modulate(x, scale, shift []float32) {
	switch o {
	case avx512:
		modulateAVX512(at(x), at(scale), at(shift), len(x))
	case avx2:
		modulateAVX2(at(x), at(scale), at(shift), len(x))
	default:
		modulate(x, scale, shift)
	}
}

func (o Ops) affine(dst, x, scale, shift []float32, pixels int) {
	switch o {
	case avx512:
		affineAVX512(&dst[0], &x[0], &scale[0], &shift[0], len(scale), pixels)
	case avx2:
		affineAVX2(&dst[0], &x[0], &scale[0], &shift[0], len(scale), pixels)
	default:
		affine(dst, x, scale, shift, pixels)
	}
}

func (o Ops) mulAdd(dst, x, y []float32) {
	switch o {
	case avx512:
		mulAddAVX512(at(dst), at(x), at(y), len(dst))
	case avx2:
		mulAddAVX2(at(dst), at(x), at(y), len(dst))
	default:
		mulAdd(dst, x, y)
	}
}

func (o Ops) rotate(dst, x, cos, sin []float32) {
	switch o {
	case avx512:
		rotateAVX512(at(dst), at(x), at(cos), at(sin), len(cos))
	case avx2:
		rotateAVX2(at(dst), at(x), at(cos), at(sin), len(cos))
	default:
		rotate(dst, x, cos, sin)
	}
}

func (o Ops) columnSums(dst, x []float32, stride, pixels int) {
	if len(x) == 0 {
		return
	}
	switch o {
	case avx512:
		columnSumsAVX512(&dst[0], &x[0], 4*stride, pixels)
	case avx2:
		columnSumsAVX2(&dst[0], &x[0], 4*stride, pixels)
	default:
		columnSums(dst, x, stride, pixels)
	}
}

func (o Ops) columnSquares(dst, x, mean []float32, stride, pixels int) {
	if len(x) == 0 {
		return
	}
	switch o {
	case avx512:
		columnSquaresAVX512(&dst[0], &x[0], &mean[0], 4*stride, pixels)
	case avx2:
		columnSquaresAVX2(&dst[0], &x[0], &mean[0], 4*stride, pixels)
	default:
		columnSquares(dst, x, mean, stride, pixels)
	}
}

func (p Panel) scores(s, k, q []float32, keys, dim int, next uintptr) {
	switch p {
	case Panel{avx512, 3}:
		scoresWideAVX512(&s[0], &k[0], &q[0], keys, dim, next)
	case Panel{avx512, 2}:
		scoresMiddleAVX512(&s[0], &k[0], &q[0], keys, dim, next)
	case Panel{avx512, 1}:
		scoresNarrowAVX512(&s[0], &k[0], &q[0], keys, dim, next)
	case Panel{avx2, 3}:
		scoresWideAVX2(&s[0], &k[0], &q[0], keys, dim, next)
	case Panel{avx2, 1}:
		scoresNarrowAVX2(&s[0], &k[0], &q[0], keys, dim, next)
	default:
		scores(s, k, q, keys, dim, p.Lanes())
	}
}

func (p Panel) softmax(s, top, sum, alpha []float32, keys int) {
	switch p {
	case Panel{avx512, 3}:
		softmaxWideAVX512(&s[0], &top[0], &sum[0], &alpha[0], keys)
	case Panel{avx512, 2}:
		softmaxMiddleAVX512(&s[0], &top[0], &sum[0], &alpha[0], keys)
	case Panel{avx512, 1}:
		softmaxNarrowAVX512(&s[0], &top[0], &sum[0], &alpha[0], keys)
	case Panel{avx2, 3}:
		softmaxWideAVX2(&s[0], &top[0], &sum[0], &alpha[0], keys)
	case Panel{avx2, 1}:
		softmaxNarrowAVX2(&s[0], &top[0], &sum[0], &alpha[0], keys)
	default:
		softmax(s, top, sum, alpha, keys, p.Lanes())
	}
}

func (p Panel) values(o, v, s, alpha []float32, keys, dim int, next uintptr) {
	switch p {
	case Panel{avx512, 3}:
		valuesWideAVX512(&o[0], &v[0], &s[0], &alpha[0], keys, dim, next)
	case Panel{avx512, 2}:
		valuesMiddleAVX512(&o[0], &v[0], &s[0], &alpha[0], keys, dim, next)
	case Panel{avx512, 1}:
		valuesNarrowAVX512(&o[0], &v[0], &s[0], &alpha[0], keys, dim, next)
	case Panel{avx2, 3}:
		valuesWideAVX2(&o[0], &v[0], &s[0], &alpha[0], keys, dim, next)
	case Panel{avx2, 1}:
		valuesNarrowAVX2(&o[0], &v[0], &s[0], &alpha[0], keys, dim, next)
	default:
		values(o, v, s, alpha, keys, dim, p.Lanes())
	}
}

func (o Ops) transpose(dst, src []float32, scale *[8]float32, dstStride, srcStride, dstStep,
	srcStep, blocks int) {
	switch o {
	case avx512, avx2:
		transposeAVX2(&dst[0], &src[0], &scale[0], 4*dstStride, 4*srcStride, 4*dstStep, 4*srcStep, blocks)
	default:
		transpose(dst, src, scale, dstStride, srcStride, dstStep, srcStep, blocks)
	}
}
