package neongemm

import (
	"unmask/internal/simd/_asm/gemm"
	"unmask/internal/simd/_asm/neon"
)

// levels writes the kernel of one row that takes levels as they are packed, two of 4 bits in each
// byte and in planes behind them one or two bits more. It takes 4 of the 16 columns at a time.
func levels(file *neon.File, name string, bits int) {
	doc := "is mulBlocksDot_1x16 for a panel, for 32 values as they are packed, and with scales apart:" +
		"\n\n\t" + gemm.Levels(bits) + "\n\nIt fetches 8 times for 32 values."
	file.Func("mulBlocks"+name+"_1x16", gemm.BlocksSignature("scales"), doc, func(f *neon.Func) {
		begin, b, mins, c, scales, step := f.Param("a"), f.Param("b"), f.Param("mins"), f.Param("c"),
			f.Param("scales"), f.Param("step")
		next, records := f.Param("next"), f.Param("records")
		a, at, planes, scale, left, quarters := f.R(), f.R(), f.R(), f.R(), f.R(), f.R()
		f.Constants()
		low, mask := f.Bits(0x0f0f0f0f), f.Bits([]uint32{0, 0x10101010, 0x30303030}[bits])
		sum, p, x, scaleOf := f.Vs(2), f.V(), f.Vs(2), f.V()
		apart := 1 // scales of 32 values
		if bits == 2 {
			apart = 2
		}
		f.Set(4, quarters)
		f.Label("quarter")
		f.Move(begin, a)
		f.Move(b, at)
		f.Move(scales, scale)
		f.Move(records, left)
		f.Set(32*64, planes)
		f.Add(b, planes)
		f.Zero(p)
		f.Label("record")
		for range 2 {
			f.Prefetch(neon.Mem{Base: next})
			f.Add(step, next)
		}
		second, start := 16, 32 // bytes of A before the words of high halves, and before where sums begin
		if apart == 2 {
			second, start = 20, 16
		}
		var plane []neon.V
		for i := range bits {
			plane = append(plane, f.Load(neon.Mem{Base: planes, Off: 64 * i}))
		}
		for half := range 2 {
			f.LoadTo(neon.Mem{Base: a, Off: second * half}, x[half])
			if half < apart {
				f.LoadScalarTo(neon.Mem{Base: a, Off: start + second*half}, sum[half])
				f.BroadcastTo(sum[half], sum[half], 0)
			}
		}
		for w := range 4 {
			y := f.Load(neon.Mem{Base: at, Off: 64 * w})
			for half, v := range []neon.V{f.And(y, low), f.And(f.Right(y, 4), low)} {
				if bits > 0 {
					of := w + 4*half
					v = f.Or(v, f.And(moved(f, plane[bits*of/8], 4-bits*of%8), mask))
				}
				f.SDotElement(sum[half%apart], v, x[half], w)
			}
		}
		for i := range apart {
			f.FloatTo(sum[i])
			f.LoadTo(neon.Mem{Base: scale, Off: 64 * i}, scaleOf)
			f.FMLA(p, sum[i], scaleOf)
		}
		f.Advance(a, 32+4*apart)
		f.Advance(at, 256)
		f.Advance(scale, 64*apart)
		if bits > 0 {
			f.Advance(planes, 64*bits)
		}
		f.Again(left, apart, "record")
		if bits < 2 {
			f.IfZero(mins, "scale")
			levelsMins(f, a, mins, p, sum[0])
			f.Advance(a, 20)
			f.Advance(mins, 16)
			f.Label("scale")
		}
		f.LoadScalarTo(neon.Mem{Base: a}, scaleOf)
		f.BroadcastTo(scaleOf, scaleOf, 0)
		sumC := f.Load(neon.Mem{Base: c})
		f.Store(f.FMLA(sumC, p, scaleOf), neon.Mem{Base: c})
		for _, r := range []neon.R{b, scales, c} {
			f.Advance(r, 16)
		}
		f.Again(quarters, 1, "quarter")
		f.Return()
	})
}

// levelsMins adds to p the products of the row's sums at a with mins.
func levelsMins(f *neon.Func, a, mins neon.R, p, sum neon.V) {
	x := f.Load(neon.Mem{Base: a}) // two words of high bytes, two of low ones
	m := []neon.V{f.Load(neon.Mem{Base: mins}), f.Load(neon.Mem{Base: mins, Off: 64})}
	f.Zero(sum)
	for i, v := range []neon.V{m[0], m[1], m[0], m[1]} {
		if i == 2 {
			f.LeftTo(sum, sum, 6)
		}
		f.SDotElement(sum, v, x, i)
	}
	f.FloatTo(sum)
	f.FMLA(p, sum, f.Load(neon.Mem{Base: mins, Off: 128}))
}
