//go:build amd64 && !purego

package gemm

import (
	"slices"

	"unmask/internal/quant"
	"unmask/internal/simd"
)

// avx512 tiles: 8x48 has 24 accumulators, and 12x32 as many for widths such as 128.
var avx512 = map[Format][]*Kernel{
	F32: {
		assembly(F32, 48, mulF32_8x48, mulF32_4x48, mulF32_2x48, mulF32_1x48),
		assembly(F32, 32, mulF32_12x32, mulF32_8x32, mulF32_4x32, mulF32_2x32,
			mulF32_1x32).reading(windows_12x32),
	},
	BF16: {assembly(BF16, 48, mulBF16_8x48, mulBF16_4x48, mulBF16_2x48, mulBF16_1x48)},
	BF16Wide: {assembly(BF16Wide, 48, mulBF16Wide_8x48, mulBF16Wide_4x48, mulBF16Wide_2x48,
		mulBF16Wide_1x48)},
	Int8: {assembly(Int8, 48, mulInt8_8x48, mulInt8_4x48, mulInt8_2x48, mulInt8_1x48)},
}

var avx2 = map[Format][]*Kernel{
	F32: {assembly(F32, 16, mulF32_6x16, mulF32_4x16, mulF32_2x16, mulF32_1x16).
		reading(windows_6x16)},
	BF16Wide: {assembly(BF16Wide, 16, mulBF16Wide_6x16, mulBF16Wide_4x16, mulBF16Wide_2x16,
		mulBF16Wide_1x16)},
	Int8Wide: {assembly(Int8Wide, 16, mulInt8Wide_6x16, mulInt8Wide_2x16, mulInt8Wide_1x16)},
	Int8:     {assembly(Int8, 16, mulInt8_6x16, mulInt8_2x16, mulInt8_1x16)}, // of AVX-VNNI
}

// kernels of a level. A format that the processor cannot multiply is a wide one; int8 without
// VNNI stays with AVX2, as only the first processors with AVX-512 need it.
func kernels(level simd.Level, f Format) []*Kernel {
	if f == BF16 && !level.BF16 {
		f = BF16Wide
	}
	if f == Int8 && !level.VNNI {
		f = Int8Wide
	}
	switch {
	case level.ISA == simd.AVX512 && f != Int8Wide:
		return avx512[f]
	case level.ISA == simd.Generic:
		return []*Kernel{generic(f)}
	}
	return avx2[f]
}

// assembly returns a kernel of generated code, of one function for each height, all of which
// fit columns.
func assembly(f Format, columns int, tallest multiply, less ...multiply) *Kernel {
	k := &Kernel{Format: f, Columns: columns, Cache: 1 << 16, store: storeRows, scale: scaleRows,
		largest: absMax, turn: turnWords}
	heights := map[int][]int{16: {6, 4, 2, 1}, 32: {12, 8, 4, 2, 1}, 48: {8, 4, 2, 1}}[columns]
	if (f == Int8 || f == Int8Wide) && columns == 16 {
		heights = []int{6, 2, 1}
	}
	for i, run := range append([]multiply{tallest}, less...) {
		k.heights = append(k.heights, height{heights[i], run})
	}
	k.Rows = heights[0]
	if columns > 16 {
		k.Cache = 1 << 17
	}
	switch f {
	case F32:
		k.pack, k.step = packF32, 8
	case BF16:
		k.pack, k.step = packBF16, 16
	case BF16Wide:
		k.pack, k.step = packBF16Wide, 8
	case Int8:
		k.pack, k.step = packInt8, 16
		if columns == 16 {
			k.pack = packInt8Short
		}
	case Int8Wide:
		k.pack, k.step = packInt8Wide, 8
	}
	return k
}

// The kernels of block formats, by what multiplies. Without VNNI there are two for levels that are
// unpacked: of Q8_0, whose bytes have signs, and of those of 5 and 6 bits.
var (
	dotWide = append(blockHeights(8, false, []int{4, 2}, mulBlocksDot_4x48, mulBlocksDot_2x48),
		blockHeight{1, mulBlocksDot_1x48, 24, false})
	dotHalves = append(blockHeights(8, true, []int{4, 2}, mulBlocksHalves_4x48, mulBlocksHalves_2x48),
		blockHeight{1, mulBlocksHalves_1x48, 24, true})
	dotShort = blockHeights(8, false, []int{6, 2, 1}, mulBlocksDot_6x16, mulBlocksDot_2x16,
		mulBlocksDot_1x16)
	pairsLow  = blockHeights(8, false, []int{4, 2}, mulBlocksLow_4x16, mulBlocksLow_2x16)
	pairsSign = blockHeights(8, false, []int{4, 2, 1}, mulBlocksSigned_4x16, mulBlocksSigned_2x16,
		mulBlocksSigned_1x16)
	pairsFour = blockHeights(5, true, []int{4, 2}, mulBlocksFour_4x16, mulBlocksFour_2x16)
)

// blocksFor: as with int8, AVX-512 without VNNI stays with AVX2.
func blocksFor(level simd.Level, t quant.Type) *Blocks {
	k := &Blocks{Type: t, Columns: 16, flip: level.VNNI, largest: absMax, quantise: quantiseRuns,
		expand: expandScales}
	four := t == quant.Q4_0 || t == quant.Q4_K
	switch {
	case level.ISA == simd.Generic:
		return genericBlocks(t, 16, false)
	case level.ISA == simd.AVX512 && level.VNNI && four:
		k.Tile, k.heights = avx512Fours, dotHalves
	case level.ISA == simd.AVX512 && level.VNNI:
		k.Tile, k.heights = avx512Fours, dotWide
	case level.VNNI && t.Signed():
		k.Tile, k.heights = avx2[F32][0], dotShort
	case level.VNNI:
		k.Tile, k.heights = avx2[F32][0], slices.Concat(dotShort[:2], oneRow[t])
	case t.Signed():
		k.Tile, k.heights = avx2Fours, pairsSign
	case four:
		k.Tile, k.heights = avx2Fours, slices.Concat(pairsFour, oneRow[t])
	default:
		k.Tile, k.heights = avx2Fours, slices.Concat(pairsLow, oneRow[t])
	}
	k.Rows, k.Columns, k.Cache = k.Tile.Rows, k.Tile.Columns, k.Tile.Cache
	six := unpackSix
	if k.Columns == 48 {
		six, k.expand = unpackSixWide, expandScalesWide
	}
	k.unpack = [...]func(dst, src, high *float32, width, half, blocks, stride int){
		quant.Q4_0: unpackLow, quant.Q4_K: unpackLow, quant.Q5_K: unpackFive, quant.Q6_K: six,
		quant.Q8_0: nil}[t]
	return k
}

// avx2Fours and avx512Fours are the kernels of float32 with panels of four rows.
var avx2Fours, avx512Fours = fours(avx2[F32][0]), fours(avx512[F32][0])

func fours(k *Kernel) *Kernel {
	four := *k
	four.Rows, four.heights, four.windows = 4, four.heights[1:], nil
	return &four
}
