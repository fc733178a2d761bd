package neongemm

import "unmask/internal/simd/_asm/neon"

// rowLoop runs column for each 16 columns of each row; row runs before those of one. The pointers
// start again at each row, as they were or moved on by their strides.
func rowLoop(f *neon.Func, rows, cols neon.R, starts, strides []neon.R, row func(),
	column func(at []neon.R)) {
	at := make([]neon.R, len(starts))
	for i := range at {
		at[i] = f.R()
	}
	left := f.R()
	f.Label("row")
	for i, s := range starts {
		f.Move(s, at[i])
	}
	f.Move(cols, left)
	row()
	f.Label("column")
	column(at)
	for _, r := range at {
		f.Advance(r, 64)
	}
	f.Decrease(left, 1)
	f.Branch("NE", "column")
	for i, s := range strides {
		f.Add(s, starts[i])
	}
	f.Decrease(rows, 1)
	f.Branch("NE", "row")
	f.Return()
}

// store writes finished tiles.
func store(file *neon.File) {
	file.Func("storeRows", "(dst, tile, bias *float32, ldd, ldt, rows, cols, add int)", `is, for i of rows and j of 16*cols columns:

	y := tile[i][j] + bias[j]
	if add { y += dst[i][j] }
	dst[i][j] = y`, func(f *neon.Func) {
		dst, tile, bias := f.Param("dst"), f.Param("tile"), f.Param("bias")
		ldd, ldt := f.Bytes("ldd"), f.Bytes("ldt")
		rows, cols, add := f.Param("rows"), f.Param("cols"), f.Param("add")
		rowLoop(f, rows, cols, []neon.R{dst, tile, bias}, []neon.R{ldd, ldt}, func() {},
			func(at []neon.R) {
				y, b := f.Vs(4), f.Vs(4)
				f.LoadAll(neon.Mem{Base: at[1]}, y)
				f.LoadAll(neon.Mem{Base: at[2]}, b)
				for i := range y {
					f.AddTo(y[i], b[i])
				}
				f.IfZero(add, "write")
				d := f.Vs(4)
				f.LoadAll(neon.Mem{Base: at[0]}, d)
				for i := range y {
					f.AddTo(y[i], d[i])
				}
				f.Label("write")
				f.StoreAll(y, neon.Mem{Base: at[0]})
			})
	})
}

// scale turns sums of int8 products into what they stand for.
func scale(file *neon.File) {
	file.Func("scaleRows", "(tile, row, col, offset *float32, ldt, rows, cols int)", `is, for i of rows and j of 16*cols columns, where tile and offset hold int32:

	tile[i][j] = float32(tile[i][j]-offset[j]) * row[i] * col[j]`, func(f *neon.Func) {
		tile, row, col, offset := f.Param("tile"), f.Param("row"), f.Param("col"), f.Param("offset")
		ldt, rows, cols := f.Bytes("ldt"), f.Param("rows"), f.Param("cols")
		var factor neon.V
		rowLoop(f, rows, cols, []neon.R{tile, col, offset}, []neon.R{ldt}, func() {
			factor = f.Broadcast(f.LoadScalar(neon.Mem{Base: row, Off: 4, Post: true}), 0)
		}, func(at []neon.R) {
			y, c, o := f.Vs(4), f.Vs(4), f.Vs(4)
			f.LoadAll(neon.Mem{Base: at[0]}, y)
			f.LoadAll(neon.Mem{Base: at[1]}, c)
			f.LoadAll(neon.Mem{Base: at[2]}, o)
			for i := range y {
				y[i] = f.FMul(f.FMul(f.Float(f.ISub(y[i], o[i])), factor), c[i])
			}
			f.StoreAll(y, neon.Mem{Base: at[0]})
		})
	})
}
