//go:build arm64 && !purego

package gemm

import (
	"slices"

	"unmask/internal/quant"
	"unmask/internal/simd"
)

// neon tiles: 6x16 has 24 accumulators of 4 columns.
var neon = map[Format]*Kernel{
	F32:      assembly(F32, []int{6, 4, 2, 1}, mulF32_6x16, mulF32_4x16, mulF32_2x16, mulF32_1x16),
	BF16Wide: assembly(BF16Wide, []int{6, 2, 1}, mulBF16Wide_6x16, mulBF16Wide_2x16, mulBF16Wide_1x16),
}

// The kernels of Int8Signed, with SDOT and without.
var (
	int8Dot   = assembly(Int8Signed, []int{6, 2, 1}, mulInt8Dot_6x16, mulInt8Dot_2x16, mulInt8Dot_1x16)
	int8Pairs = assembly(Int8Signed, []int{2, 1}, mulInt8Pairs_2x16, mulInt8Pairs_1x16)
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

// assembly returns a kernel of generated code, of one function for each height.
func assembly(f Format, heights []int, run ...multiply) *Kernel {
	k := &Kernel{Format: f, Rows: heights[0], Columns: 16, Cache: 1 << 16, store: storeRows,
		scale: scaleRows, largest: absMax, turn: turnWords}
	for i, rows := range heights {
		k.heights = append(k.heights, height{rows, run[i]})
	}
	switch f {
	case F32:
		k.pack, k.step = packF32, 8
	case BF16Wide:
		k.pack, k.step = packBF16Wide, 8
	case Int8Signed:
		k.pack, k.step = packInt8Signed, 16
	}
	return k
}

// The kernels of block formats, with SDOT and without, and those of float32 with panels of the same
// heights.
var (
	blocksDot = blockHeights(8, false, []int{6, 2, 1}, mulBlocksDot_6x16, mulBlocksDot_2x16,
		mulBlocksDot_1x16)
	dotTile     = assembly(F32, []int{6, 2, 1}, mulF32_6x16, mulF32_2x16, mulF32_1x16)
	blocksPairs = blockHeights(8, false, []int{2, 1}, mulBlocksPairs_2x16, mulBlocksPairs_1x16)
	pairsTile   = assembly(F32, []int{2, 1}, mulF32_2x16, mulF32_1x16)
)

func blocksFor(level simd.Level, t quant.Type) *Blocks {
	if level.ISA == simd.Generic {
		return genericBlocks(t, 16, false)
	}
	unpack := [...]func(dst, src, high *float32, width, half, blocks, stride int){
		quant.Q4_0: unpackLow, quant.Q4_K: unpackLow, quant.Q5_K: unpackFive, quant.Q6_K: unpackSix,
		quant.Q8_0: nil}[t]
	k := &Blocks{Type: t, Tile: pairsTile, heights: blocksPairs, largest: absMax,
		quantise: quantiseRuns, unpack: unpack, expand: expandScales}
	if level.Dot {
		k.Tile, k.heights = dotTile, blocksDot
		if t != quant.Q8_0 {
			k.heights = slices.Concat(blocksDot[:2], oneRow[t])
		}
	}
	k.Rows, k.Columns, k.Cache = k.Tile.Rows, k.Tile.Columns, k.Tile.Cache
	return k
}
