//go:build amd64 && !purego

package vec

// Assembly under the names by which it is chosen.

func transposeAVX512(dst, src, scale *float32, dstStride, srcStride, dstStep, srcStep, blocks int) {
	transposeAVX2(dst, src, scale, dstStride, srcStride, dstStep, srcStep, blocks)
}

func pairBF16AVX512(dst, x *float32, pairs, width int) { pairWords(dst, x, pairs, width) }
