//go:build purego || (!amd64 && !arm64)

package ceiling

import "unmask/internal/simd"

// loops returns loops of plain Go: there is no assembly for this processor.
func loops(simd.Level) (f32, bf16, int8s Loop) { return plain, plain, plain }

// readMemory reads all of x, and does nothing with it.
func readMemory(_ simd.Level, x []float32) { readPlain(x) }
