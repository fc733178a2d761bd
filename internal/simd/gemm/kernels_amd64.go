//go:build amd64 && !purego

package gemm

import (
	"slices"

	"github.com/klauspost/cpuid/v2"

	"unmask/internal/quant"
	"unmask/internal/simd"
)

// packers are those of the formats.
var packers = [...]packer{
	F32:      packF32,
	BF16:     packBF16,
	BF16Wide: packBF16Wide,
	Int8:     packInt8,
	Int8Wide: packInt8Wide,
}

// B's bytes are shifted.
var packBytes, flip = packInt8Short, uint32(0)

// avx512 tiles: 8x48 has 24 accumulators, and 12x32 as many for widths such as 128.
var avx512 = map[Format][]*Kernel{
	F32: {
		wide(F32, mulF32_8x48, mulF32_4x48, mulF32_2x48, mulF32_1x48),
		assembly(F32, 32, 1<<17, []int{12, 8, 4, 2, 1}, mulF32_12x32, mulF32_8x32, mulF32_4x32,
			mulF32_2x32, mulF32_1x32),
	},
	BF16: {wide(BF16, mulBF16_8x48, mulBF16_4x48, mulBF16_2x48, mulBF16_1x48)},
	BF16Wide: {wide(BF16Wide, mulBF16Wide_8x48, mulBF16Wide_4x48, mulBF16Wide_2x48,
		mulBF16Wide_1x48)},
	Int8: {wide(Int8, mulInt8_8x48, mulInt8_4x48, mulInt8_2x48, mulInt8_1x48)},
}

func wide(f Format, run ...multiply) *Kernel {
	return assembly(f, 48, 1<<17, []int{8, 4, 2, 1}, run...)
}

var avx2 = map[Format][]*Kernel{
	F32: {assembly(F32, 16, 1<<16, []int{6, 4, 2, 1}, mulF32_6x16, mulF32_4x16, mulF32_2x16,
		mulF32_1x16)},
	BF16Wide: {assembly(BF16Wide, 16, 1<<16, []int{6, 4, 2, 1}, mulBF16Wide_6x16, mulBF16Wide_4x16,
		mulBF16Wide_2x16, mulBF16Wide_1x16)},
	Int8Wide: {assembly(Int8Wide, 16, 1<<16, []int{6, 2, 1}, mulInt8Wide_6x16, mulInt8Wide_2x16,
		mulInt8Wide_1x16)},
	Int8: {assembly(Int8, 16, 1<<16, []int{6, 2, 1}, mulInt8_6x16, mulInt8_2x16,
		mulInt8_1x16)}, // of AVX-VNNI
}

func init() {
	avx512[F32][1].windows = windows_12x32
	avx2[F32][0].windows = windows_6x16
	avx2[Int8][0].pack = packInt8Short
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

// The kernels of block formats, by what multiplies. Without VNNI there are two for levels that are
// unpacked: of Q8_0, whose bytes have signs, and of those of 5 and 6 bits.
var (
	dotWide = append(blockHeights(8, false, []int{4, 2}, mulBlocksDot_4x48, mulBlocksDot_2x48),
		blockHeight{1, mulBlocksDot_1x48, 24, false})
	dotHalves = append(blockHeights(8, true, []int{4, 2}, mulBlocksHalves_4x48, mulBlocksHalves_2x48),
		blockHeight{1, mulBlocksHalves_1x48, 24, true})
	dotMany  = slices.Concat(dotWide[:2], dotHalves[2:])
	dotShort = blockHeights(8, false, []int{6, 2, 1}, mulBlocksDot_6x16, mulBlocksDot_2x16,
		mulBlocksDot_1x16)
	pairsLow  = blockHeights(8, false, []int{4, 2}, mulBlocksLow_4x16, mulBlocksLow_2x16)
	pairsSign = blockHeights(8, false, []int{4, 2, 1}, mulBlocksSigned_4x16, mulBlocksSigned_2x16,
		mulBlocksSigned_1x16)
	pairsFour = blockHeights(5, true, []int{4, 2}, mulBlocksFour_4x16, mulBlocksFour_2x16)
)

// blocksFor: as with int8, AVX-512 without VNNI stays with AVX2.
func blocksFor(level simd.Level, t quant.Type) *Blocks {
	k := &Blocks{
		Type:     t,
		flip:     level.VNNI,
		largest:  absMax,
		quantise: quantiseRuns,
		unpack:   unpackers[t],
		expand:   expandScales,
	}
	columns := 16
	cache := 1 << 16
	four := t == quant.Q4_0 || t == quant.Q4_K
	switch {
	case level.ISA == simd.Generic:
		return genericBlocks(t, 16, false)
	case level.ISA == simd.AVX512 && level.VNNI:
		columns = 48
		cache = 1 << 17
		k.heights = dotWide
		k.expand = expandScalesWide
		switch t {
		case quant.Q4_0, quant.Q4_K:
			k.heights = dotHalves
			k.many = dotMany
			k.unpack = unpackLowWide
			k.manyRows = 128                     // as fast either way on Zen 4
			if cpuid.CPU.IsVendor(cpuid.Intel) { // taking levels apart takes the products' ports
				k.manyRows = 16
			}
		case quant.Q5_K:
			k.heights = append(dotWide[:2:2], blockHeight{1, mulBlocksFive_1x48, 24, true})
		case quant.Q6_K:
			k.heights = append(dotWide[:2:2], blockHeight{1, mulBlocksSix_1x48, 24, true})
			k.unpack = unpackSixWide
		}
	case level.VNNI && t.Signed():
		k.heights = dotShort
	case level.VNNI:
		k.heights = slices.Concat(dotShort[:2], oneRow[t])
	case t.Signed():
		k.heights = pairsSign
	case four:
		k.heights = slices.Concat(pairsFour, oneRow[t])
	default:
		k.heights = slices.Concat(pairsLow, oneRow[t])
	}
	return k.tiled(columns, cache, assembled)
}
