// Package gemm describes the matrix product kernels of package internal/simd/gemm for amd64.
//
// All kernels share one layout, described in that package. Four words (16 bytes) of A a row
// are a line, and a loop trip takes one line of every row.
package gemm

import "unmask/internal/simd/_asm/vec"

// AMD64 writes all functions of the package.
func AMD64() {
	emitProducts()
	emitBlockProducts()
	emitPacking()
}

// emitProducts writes the kernels of formats with one type for all numbers: for each tile of C,
// those of fewer rows too, for the last rows of a matrix.
func emitProducts() {
	for _, k := range []kernel{
		{format: f32, rows: 8, vecs: 3, wide: true},
		{format: f32, rows: 12, vecs: 2, wide: true},
		{format: bf16, rows: 8, vecs: 3, wide: true},
		{format: bf16Wide, rows: 8, vecs: 3, wide: true},
		{format: int8, rows: 8, vecs: 3, wide: true},
		{format: f32, rows: 6, vecs: 2},
		{format: bf16Wide, rows: 6, vecs: 2},
	} {
		tile := k.rows
		for _, k.rows = range []int{1, 2, 4, 6, 8, 12} {
			if k.rows == tile || k.rows < tile && k.rows != 6 {
				k.emit()
			}
		}
	}
	for _, rows := range []int{1, 2, 6} { // without 4, which gains little and is long
		kernel{format: int8Wide, rows: rows, vecs: 2}.emit()
		kernel{format: int8, rows: rows, vecs: 2}.emit()
	}
	kernel{format: f32, rows: 12, vecs: 2, wide: true}.emitWindows()
	kernel{format: f32, rows: 6, vecs: 2}.emitWindows()
}

// emitBlockProducts writes the kernels of block formats, and the functions that pack for them.
func emitBlockProducts() {
	for _, rows := range []int{1, 2, 4} {
		dotBlocks(rows, 3, true).emit()
		halvesOf("Halves", rows, 0).emit()
	}
	for _, rows := range []int{1, 2, 6} {
		dotBlocks(rows, 2, false).emit()
	}
	for _, rows := range []int{1, 2, 4} {
		signedBlocks(rows).emit()
		levelsOf("Four", rows, 0).emitTile()
		if rows > 1 {
			lowBlocks(rows).emit()
		}
	}
	halvesOf("Five", 1, 1).emit()
	halvesOf("Six", 1, 2).emit()
	levelsOf("Five", 1, 1).emitRow()
	levelsOf("Six", 1, 2).emitRow()
	quantiseRuns()
	unpack("unpackFive", 1, false)
	for _, wide := range []bool{false, true} {
		unpack("unpackLow", 0, wide)
		unpack("unpackSix", 2, wide)
		expandScales(wide)
	}
}

// emitPacking writes the functions that pack A and B.
func emitPacking() {
	for _, p := range packs {
		p.emit()
	}
	emitAbsMax()
	emitTurnWords()
	vec.TilesAMD64()
}
