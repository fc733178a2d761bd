// Package neongemm describes the matrix product kernels of package internal/simd/gemm for arm64.
package neongemm

import (
	"unmask/internal/simd/_asm/neon"
	"unmask/internal/simd/_asm/vec"
)

// ARM64 writes all.
func ARM64(f *neon.File) {
	products(f)
	blockProducts(f)
	packing(f)
}

func products(f *neon.File) {
	for _, rows := range []int{6, 4, 2, 1} {
		f32.emit(f, rows)
	}
	for _, k := range []kernel{bf16Wide, int8Dot} {
		for _, rows := range []int{6, 2, 1} { // without 4, which gains little and is long
			k.emit(f, rows)
		}
	}
	for _, rows := range []int{2, 1} {
		int8Pairs(f, rows)
	}
}

// blockProducts are those of block formats, and what packs for them.
func blockProducts(f *neon.File) {
	for _, rows := range []int{6, 2, 1} {
		writeBlocks(f, rows, true)
	}
	for _, rows := range []int{2, 1} {
		writeBlocks(f, rows, false)
	}
	for bits, name := range []string{"Four", "Five", "Six"} {
		writeLevels(f, name, bits)
	}
	quantiseRuns(f)
	unpack(f, "unpackLow", 0)
	unpack(f, "unpackFive", 1)
	unpack(f, "unpackSix", 2)
	expandScales(f)
}

func packing(f *neon.File) {
	packF32(f)
	packBF16Wide(f)
	packInt8Signed(f)
	absMax(f)
	turn(f)
	vec.TilesARM64(f)
}
