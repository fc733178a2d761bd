//go:build purego || !amd64

package simd

func detect() Level { return Level{} }
