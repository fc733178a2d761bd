//go:build amd64 && !purego

package vec

func (o Ops) pairBF16(dst, x []float32, pairs, width int) {
	if o == avx512 {
		pairWords(&dst[0], &x[0], pairs, width/line)
		return
	}
	pairBF16(dst, x, pairs, width)
}

func (p Panel) valuesBF16(o, v, s, alpha []float32, pairs, dim int, next uintptr) {
	switch p {
	case Panel{avx512, 3}:
		valuesBF16WideAVX512(&o[0], &v[0], &s[0], &alpha[0], pairs, dim, next)
	case Panel{avx512, 2}:
		valuesBF16MiddleAVX512(&o[0], &v[0], &s[0], &alpha[0], pairs, dim, next)
	case Panel{avx512, 1}:
		valuesBF16NarrowAVX512(&o[0], &v[0], &s[0], &alpha[0], pairs, dim, next)
	default:
		valuesBF16(o, v, s, alpha, pairs, dim, p.Lanes())
	}
}

func (o Ops) fixRows(dst, scale, x []float32, rows, dim int, limit, unit float32) {
	if o == avx512 {
		fixRowsAVX512(&dst[0], &scale[0], &x[0], rows, dim/line, limit, unit)
	} else {
		fixRows(dst, scale, x, rows, dim, limit, unit)
	}
}

func (o Ops) fixLanes(dst, scale, x []float32, pairs, lanes int, limit, unit float32) {
	if o == avx512 {
		fixLanesAVX512(&dst[0], &scale[0], &x[0], pairs, 4*lanes, limit, unit)
	} else {
		fixLanes(dst, scale, x, pairs, lanes, limit, unit)
	}
}

func (p Panel) scoresFixed(s, k, scale, q []float32, keys, words int, next uintptr) {
	switch p {
	case Panel{avx512, 3}:
		scoresFixedWideAVX512(&s[0], &k[0], &scale[0], &q[0], keys, words, next)
	case Panel{avx512, 2}:
		scoresFixedMiddleAVX512(&s[0], &k[0], &scale[0], &q[0], keys, words, next)
	case Panel{avx512, 1}:
		scoresFixedNarrowAVX512(&s[0], &k[0], &scale[0], &q[0], keys, words, next)
	default:
		scoresFixed(s, k, scale, q, keys, words, p.Lanes())
	}
}

func (o Ops) softmaxFixed(s, scale, top, sum, alpha []float32, pairs, lanes int) {
	if o == avx512 {
		softmaxFixedAVX512(&s[0], &scale[0], &top[0], &sum[0], &alpha[0], pairs, 4*lanes)
	} else {
		softmaxFixed(s, scale, top, sum, alpha, pairs, lanes)
	}
}
