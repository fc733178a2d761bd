//go:build (!amd64 && !arm64) || purego

package vec

func (o Ops) apply(f function, dst, x []float32)           { apply(f, dst, x) }
func (o Ops) sum(x []float32) float32                      { return sum(x) }
func (o Ops) sumSquares(x []float32, mean float32) float32 { return sumSquares(x, mean) }
func (o Ops) normalize(dst, x, scale, shift []float32, mean, inverse float32) {
	normalize(dst, x, scale, shift, mean, inverse)
}
func (o Ops) logits(x, bias []float32, scale float32) float32 { return logits(x, bias, scale) }
func (o Ops) sumExp(x []float32, c, top float32) float32      { return sumExp(x, c, top) }
func (o Ops) sumExps(x []float32, c, top float32) (float32, float32) {
	return o.sumExp(x, 1, top), o.sumExp(x, c, top)
}

func (o Ops) sumExpDot(x []float32, top float32) (float32, float32) { return sumExpDot(x, top) }
func (o Ops) weights(dst, x []float32, c, top float32)              { weights(dst, x, c, top) }
func (o Ops) leaders(x []float32, top float32) (second float32, count, first int) {
	return leaders(x, top)
}
func (o Ops) modulate(x, scale, shift []float32) { modulate(x, scale, shift) }
func (o Ops) affine(dst, x, scale, shift []float32, pixels int) {
	affine(dst, x, scale, shift, pixels)
}
func (o Ops) mulAdd(dst, x, y []float32)                      { mulAdd(dst, x, y) }
func (o Ops) rotate(dst, x, cos, sin []float32)               { rotate(dst, x, cos, sin) }
func (o Ops) columnSums(dst, x []float32, stride, pixels int) { columnSums(dst, x, stride, pixels) }
func (o Ops) columnSquares(dst, x, mean []float32, stride, pixels int) {
	columnSquares(dst, x, mean, stride, pixels)
}
func (p Panel) scores(s, k, q []float32, keys, dim int, _ uintptr) {
	scores(s, k, q, keys, dim, p.Lanes())
}
func (p Panel) softmax(s, top, sum, alpha []float32, keys int) {
	softmax(s, top, sum, alpha, keys, p.Lanes())
}
func (p Panel) values(o, v, s, alpha []float32, keys, dim int, _ uintptr) {
	values(o, v, s, alpha, keys, dim, p.Lanes())
}

func (o Ops) transpose(dst, src []float32, scale *[8]float32, dstStride, srcStride, dstStep,
	srcStep, blocks int) {
	transpose(dst, src, scale, dstStride, srcStride, dstStep, srcStep, blocks)
}
