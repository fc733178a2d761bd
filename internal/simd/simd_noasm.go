//go:build purego || (!amd64 && !arm64)

package simd

func detect() (best Level, hasAVXVNNI bool) { return Level{}, false }
