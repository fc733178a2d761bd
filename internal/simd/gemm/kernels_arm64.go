//go:build arm64 && !purego

package gemm

import (
	"slices"

	"unmask/internal/quant"
	"unmask/internal/simd"
)

// packers are those of the formats.
var packers = [...]packer{F32: packF32, BF16Wide: packBF16Wide, Int8Signed: packInt8Signed}

// B's bytes have signs.
var packBytes, flip = packInt8Signed, uint32(0x80808080)

// neon tiles: 6x16 has 24 accumulators of 4 columns.
var neon = map[Format]*Kernel{
	F32:      tiles(F32, []int{6, 4, 2, 1}, mulF32_6x16, mulF32_4x16, mulF32_2x16, mulF32_1x16),
	BF16Wide: tiles(BF16Wide, []int{6, 2, 1}, mulBF16Wide_6x16, mulBF16Wide_2x16, mulBF16Wide_1x16),
}

func tiles(f Format, heights []int, run ...multiply) *Kernel {
	return assembly(f, 16, 1<<16, heights, run...)
}

// The kernels of Int8Signed, with SDOT and without.
var (
	int8Dot   = tiles(Int8Signed, []int{6, 2, 1}, mulInt8Dot_6x16, mulInt8Dot_2x16, mulInt8Dot_1x16)
	int8Pairs = tiles(Int8Signed, []int{2, 1}, mulInt8Pairs_2x16, mulInt8Pairs_1x16)
)

// kernels of a level.
func kernels(level simd.Level, f Format) []*Kernel {
	if f == BF16 {
		f = BF16Wide
	}
	switch {
	case level.ISA == simd.Generic && f == Int8:
		return []*Kernel{generic(Int8Wide)}
	case level.ISA == simd.Generic:
		return []*Kernel{generic(f)}
	case f == Int8 && level.Dot:
		return []*Kernel{int8Dot}
	case f == Int8:
		return []*Kernel{int8Pairs}
	}
	return []*Kernel{neon[f]}
}

// The kernels of block formats, with SDOT and without.
var (
	blocksDot = blockHeights(8, false, []int{6, 2, 1}, mulBlocksDot_6x16, mulBlocksDot_2x16,
		mulBlocksDot_1x16)
	blocksPairs = blockHeights(8, false, []int{2, 1}, mulBlocksPairs_2x16, mulBlocksPairs_1x16)
)

func blocksFor(level simd.Level, t quant.Type) *Blocks {
	if level.ISA == simd.Generic {
		return genericBlocks(t, 16, false)
	}
	k := &Blocks{
		Type:     t,
		heights:  blocksPairs,
		largest:  absMax,
		quantise: quantiseRuns,
		unpack:   unpackers[t],
		expand:   expandScales,
	}
	switch {
	case level.Dot && t == quant.Q8_0:
		k.heights = blocksDot
	case level.Dot:
		k.heights = slices.Concat(blocksDot[:2], oneRow[t])
	}
	return k.tiled(16, 1<<16, assembled)
}
