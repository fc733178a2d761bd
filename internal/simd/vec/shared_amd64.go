//go:build amd64 && !purego

package vec

// transposeAVX512 is the same assembly under the name by which it is chosen.
func transposeAVX512(dst, src, scale *float32, dstStride, srcStride, dstStep, srcStep, blocks int) {
	transposeAVX2(dst, src, scale, dstStride, srcStride, dstStep, srcStep, blocks)
}
