//go:build purego || (!amd64 && !arm64)

package simd

func detect() (best Level, short bool) { return Level{}, false }
