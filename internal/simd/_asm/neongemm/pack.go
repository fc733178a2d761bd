package neongemm

import (
	"unmask/internal/simd/_asm/gemm"
	"unmask/internal/simd/_asm/neon"
)

// packLoop writes a loop that reads vectors of x and writes their lines, stride words apart.
func packLoop(file *neon.File, name, doc string, vectors int,
	body func(f *neon.Func) func(x []neon.V) (lines []neon.V)) {
	f := file.Start(name, gemm.PackSignature, doc)
	dst := f.Param("dst")
	x := f.Param("x")
	stride := f.Bytes("stride")
	n := f.Param("n")
	f.Constants()
	pack := body(f)
	f.Label("loop")
	in := f.Vs(vectors)
	f.LoadAll(neon.Mem{Base: x}, in)
	f.Advance(x, 16*vectors)
	for _, v := range pack(in) {
		f.Store(v, neon.Mem{Base: dst})
		f.Add(stride, dst)
	}
	f.Again(n, 1, "loop")
	f.Return()
}

func packF32(file *neon.File) {
	packLoop(file, "packF32", gemm.PackF32, 2, func(f *neon.Func) func([]neon.V) []neon.V {
		return func(x []neon.V) []neon.V { return x }
	})
}

func packBF16Wide(file *neon.File) {
	packLoop(file, "packBF16Wide", gemm.PackBF16Wide, 2,
		func(f *neon.Func) func([]neon.V) []neon.V {
			half := f.Bits(0x7fff)
			one := f.Bits(1)
			high := f.Bits(0xffff0000)
			quiet := f.Bits(0x400000)
			return func(x []neon.V) (lines []neon.V) {
				for _, v := range x {
					number := f.Equal(v, v)
					r := f.IAdd(f.IAdd(f.And(f.Right(v, 16), one), half), v)
					r = f.Select(f.Copy(number), r, v)                // NaN stays as it is
					r = f.Or(f.And(r, high), f.AndNot(quiet, number)) // and one of low bits alone stays a NaN
					lines = append(lines, r)
				}
				return lines
			}
		})
}

func packInt8Signed(file *neon.File) {
	packLoop(file, "packInt8Signed",
		"rounds 16n values to bytes, 16 to a line: for i := range 16*n { dst[i/16*stride][i%16] = "+
			"uint8(round(x[i]*inverse)) }.", 4,
		func(f *neon.Func) func([]neon.V) []neon.V {
			inverse := f.Splat("inverse")
			return func(x []neon.V) []neon.V {
				var r [4]neon.V
				for i, v := range x {
					r[i] = f.Round(f.FMul(v, inverse))
				}
				return []neon.V{f.NarrowBytes(f.Narrow(r[0], r[1]), f.Narrow(r[2], r[3]))}
			}
		})
}

func absMax(file *neon.File) {
	f := file.Start("absMax", "(x *float32, n int) float32", gemm.AbsMax)
	x := f.Param("x")
	n := f.Param("n")
	top := f.Vs(2)
	f.Zero(top[0])
	f.Zero(top[1])
	f.Label("loop")
	v := f.Vs(2)
	f.LoadAll(neon.Mem{Base: x}, v)
	f.Advance(x, 32)
	for i := range v { // the bits order as the values do, and NaN is above Inf
		f.UMaxTo(top[i], f.FAbs(v[i]))
	}
	f.Again(n, 1, "loop")
	f.UMaxTo(top[0], top[1])
	f.UMaxTo(top[0], f.HighHalf(top[0]))
	f.UMaxTo(top[0], f.Broadcast(top[0], 1))
	f.Return(top[0])
}

func turn(file *neon.File) {
	f := file.Start("turnWords", "(dst, x *float32, ldd, ldx, n int)", gemm.TurnWords)
	dst := f.Param("dst")
	x := f.Param("x")
	ldd := f.Bytes("ldd")
	ldx := f.Bytes("ldx")
	n := f.Param("n")
	f.Shift(n, 1) // blocks of 4 words
	at := f.R()
	f.Label("loop")
	f.Move(x, at)
	var rows [8]neon.V
	for i := range rows {
		rows[i] = f.Load(neon.Mem{Base: at})
		f.Add(ldx, at)
	}
	low := f.Turn([4]neon.V(rows[:4]))
	high := f.Turn([4]neon.V(rows[4:]))
	for i := range low {
		f.StoreAll([]neon.V{low[i], high[i]}, neon.Mem{Base: dst})
		f.Add(ldd, dst)
	}
	f.Advance(x, 16)
	f.Again(n, 1, "loop")
	f.Return()
}
