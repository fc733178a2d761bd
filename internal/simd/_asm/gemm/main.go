// Command gemm writes the matrix product kernels of package internal/simd/gemm for amd64.
//
// All kernels share one layout, described in that package. Four words (16 bytes) of A a row
// are a line, and a loop trip takes one line of every row.
package main

import (
	. "github.com/mmcloughlin/avo/build"
)

func main() {
	ConstraintExpr("amd64,!purego")
	for _, k := range []kernel{
		{format: f32, rows: 8, vecs: 3, wide: true},
		{format: f32, rows: 12, vecs: 2, wide: true},
		{format: bf16, rows: 8, vecs: 3, wide: true},
		{format: bf16Wide, rows: 8, vecs: 3, wide: true},
		{format: int8, rows: 8, vecs: 3, wide: true},
		{format: f32, rows: 6, vecs: 2},
		{format: bf16Wide, rows: 6, vecs: 2},
		{format: int8Wide, rows: 6, vecs: 2},
	} {
		tile := k.rows
		for _, k.rows = range []int{1, 2, 4, 6, 8, 12} {
			if k.rows == tile || k.rows < tile && k.rows != 6 {
				k.emit()
			}
		}
	}
	for _, rows := range []int{1, 2, 6} {
		kernel{format: int8, rows: rows, vecs: 2}.emit()
	}
	for _, rows := range []int{1, 2, 4} {
		dotBlocks(rows, 3, true).emit()
	}
	for _, rows := range []int{1, 2, 4, 6} {
		dotBlocks(rows, 2, false).emit()
	}
	for _, rows := range []int{1, 2, 4} {
		lowBlocks(rows).emit()
		signedBlocks(rows).emit()
	}
	kernel{format: f32, rows: 12, vecs: 2, wide: true}.windows()
	kernel{format: f32, rows: 6, vecs: 2}.windows()
	quantiseRuns()
	unpack("unpackLow", 0)
	unpack("unpackFive", 1)
	unpack("unpackSix", 2)
	expandScales()
	packF32()
	packBF16()
	packBF16Wide()
	packInt8()
	packInt8Short()
	packInt8Wide()
	absMax()
	turn()
	store()
	scale()
	Generate()
}
