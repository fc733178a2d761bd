package vec

import (
	. "github.com/mmcloughlin/avo/operand"

	"unmask/internal/simd/_asm/neon"
)

// TilesAMD64 writes what finishes tiles of package gemm, for AVX2, which AVX-512 does not beat.
func TilesAMD64() { kernels{width{lanes: 8}}.tiles() }

// TilesARM64 writes it for NEON.
func TilesARM64(f *neon.File) { kernels{&arm{file: f}}.tiles() }

func (k kernels) tiles() {
	k.text("fetchRows", "(x *float32, ldx, rows, cols int)",
		"for i := range rows { for j := 0; j < cols; j += 16 { fetch(x[i][j]) } }\n\nA fetch asks for a "+
			"cache line and waits for nothing.")
	x := k.pointer("x")
	ldx := k.pointer("ldx")
	rows := k.pointer("rows")
	cols := k.pointer("cols")
	k.rows(rows, cols, []Op{x}, []Op{ldx}, func() {}, func(line lineFunc) {
		line(func(i int, at func(Op) Op) {
			if i == 0 {
				k.fetch(at(x))
			}
		})
	})
	k.ret()

	k.text("timesRows", "(tile, x *float32, ldt, ldx, rows, cols int)",
		"for i := range rows { for j := range cols { tile[i][j] *= x[i][j] } }\n\ncols is a multiple of "+
			"16.")
	tile, x := k.pointer("tile"), k.pointer("x")
	ldt, ldx := k.pointer("ldt"), k.pointer("ldx")
	rows = k.pointer("rows")
	cols = k.pointer("cols")
	k.rows(rows, cols, []Op{tile, x}, []Op{ldt, ldx}, func() {}, func(line lineFunc) {
		line(func(_ int, at func(Op) Op) { k.store(k.mul(k.load(at(tile)), at(x)), at(tile)) })
	})
	k.ret()

	k.text("storeRows", "(dst, tile, bias *float32, ldd, ldt, rows, cols, add int)",
		"for i := range rows { for j := range cols {\n\ty := tile[i][j] + bias[j]\n\tif add { y += "+
			"dst[i][j] }\n\tdst[i][j] = y\n} }\n\ncols is a multiple of 16.")
	dst, tile, bias := k.pointer("dst"), k.pointer("tile"), k.pointer("bias")
	ldd, ldt := k.pointer("ldd"), k.pointer("ldt")
	rows, cols, add := k.pointer("rows"), k.pointer("cols"), k.pointer("add")
	k.rows(rows, cols, []Op{dst, tile, bias}, []Op{ldd, ldt}, func() {}, func(line lineFunc) {
		y := make([]Op, k.perLine())
		line(func(i int, at func(Op) Op) { y[i] = k.add(k.load(at(tile)), at(bias)) })
		k.when(add, "write", func() {
			line(func(i int, at func(Op) Op) { k.addTo(y[i], at(dst)) })
		})
		line(func(i int, at func(Op) Op) { k.store(y[i], at(dst)) })
	})
	k.ret()

	k.text("scaleRows", "(tile, row, col, offset *float32, ldt, rows, cols int)",
		"for i := range rows { for j := range cols { tile[i][j] = float32(tile[i][j]-offset[j]) * row[i] "+
			"* col[j] } }\n\ntile and offset hold int32; cols is a multiple of 16.")
	tile, row, col := k.pointer("tile"), k.pointer("row"), k.pointer("col")
	offset, ldt := k.pointer("offset"), k.pointer("ldt")
	rows = k.pointer("rows")
	cols = k.pointer("cols")
	var factor Op
	k.rows(rows, cols, []Op{tile, col, offset}, []Op{ldt}, func() { factor = k.spreadNext(row) },
		func(line lineFunc) {
			line(func(_ int, at func(Op) Op) {
				y := k.float(k.isub(k.load(at(tile)), at(offset)))
				k.store(k.mul(k.mul(y, factor), at(col)), at(tile))
			})
		})
	k.ret()
}
