//go:build !amd64 || purego

package vec

// Attention of rounded factors has assembly for AVX-512 alone.

func (o Ops) pairBF16(dst, x []float32, pairs, width int) { pairBF16(dst, x, pairs, width) }

func (p Panel) valuesBF16(o, v, s, alpha []float32, pairs, dim int, _ uintptr) {
	valuesBF16(o, v, s, alpha, pairs, dim, p.Lanes())
}

func (o Ops) fixRows(dst, scale, x []float32, rows, dim int, limit, unit float32) {
	fixRows(dst, scale, x, rows, dim, limit, unit)
}

func (o Ops) fixLanes(dst, scale, x []float32, pairs, lanes int, limit, unit float32) {
	fixLanes(dst, scale, x, pairs, lanes, limit, unit)
}

func (p Panel) scoresFixed(s, k, scale, q []float32, keys, words int, _ uintptr) {
	scoresFixed(s, k, scale, q, keys, words, p.Lanes())
}

func (o Ops) softmaxFixed(s, scale, top, sum, alpha []float32, pairs, lanes int) {
	softmaxFixed(s, scale, top, sum, alpha, pairs, lanes)
}
