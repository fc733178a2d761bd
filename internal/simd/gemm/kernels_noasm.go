//go:build purego || (!amd64 && !arm64)

package gemm

import (
	"unmask/internal/quant"
	"unmask/internal/simd"
)

func kernels(_ simd.Level, f Format) []*Kernel {
	switch f {
	case BF16:
		f = BF16Wide
	case Int8:
		f = Int8Wide
	}
	return []*Kernel{generic(f)}
}

func blocksFor(_ simd.Level, t quant.Type) *Blocks { return genericBlocks(t, 16, false) }
