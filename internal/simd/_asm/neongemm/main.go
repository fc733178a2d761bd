// Command neongemm writes the matrix product kernels of package internal/simd/gemm for arm64:
//
//	go run ./neongemm -out ../gemm/gemm_arm64.s -stubs ../gemm/gemm_arm64.go -pkg gemm
package main

import "unmask/internal/simd/_asm/neon"

func main() {
	neon.Main(func(f *neon.File) {
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
		for _, rows := range []int{6, 2, 1} {
			blocksDot(f, rows)
		}
		quantiseRuns(f)
		unpack(f, "unpackLow", 0)
		unpack(f, "unpackFive", 1)
		unpack(f, "unpackSix", 2)
		expandScales(f)
		packF32(f)
		packBF16Wide(f)
		packInt8Signed(f)
		absMax(f)
		turn(f)
		store(f)
		scale(f)
	})
}
