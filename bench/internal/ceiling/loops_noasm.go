//go:build purego || (!amd64 && !arm64)

package ceiling

import "unmask/internal/simd"

func float32Loop(simd.Level) Loop { return plain }

func bfloat16Loop(simd.Level) Loop { return plain }

func int8Loop(simd.Level) Loop { return plain }

func read(_ simd.Level, x []float32) { readPlain(x) }
