//go:build arm64 && !purego

package vec

// Assembly that serves several kernels.

func sumExpNEON(x *float32, n int, c, top float32) float32 {
	s, _ := sumExpBothNEON(x, n, c, top)
	return s
}

func sumExpsNEON(x *float32, n int, c, top float32) (float32, float32) {
	return sumExpNEON(x, n, 1, top), sumExpNEON(x, n, c, top)
}

func sumExpDotNEON(x *float32, n int, top float32) (float32, float32) {
	return sumExpBothNEON(x, n, 1, top)
}

func softmaxWideNEON(s, top, sum, alpha *float32, keys int) {
	softmaxNEON(s, top, sum, alpha, keys, 24)
}

func softmaxNarrowNEON(s, top, sum, alpha *float32, keys int) {
	softmaxNEON(s, top, sum, alpha, keys, 8)
}
