package neongemm

import (
	"unmask/internal/simd/_asm/gemm"
	"unmask/internal/simd/_asm/neon"
)

// levels is a kernel of one row that takes levels as they are packed, two of 4 bits in each byte
// and in planes behind them one or two bits more. It takes 4 of the 16 columns at a time.
type levels struct {
	*neon.Func
	bits      int // in planes
	apart     int // scales of 32 values
	low, mask neon.V
	sum, x    []neon.V
	p, scale  neon.V
}

func writeLevels(file *neon.File, name string, bits int) {
	f := file.Start("mulBlocks"+name+"_1x16", gemm.BlocksSignature("scales"),
		"is mulBlocksDot_1x16 for a panel, for 32 values as they are packed, and with scales apart:"+
			"\n\n\t"+gemm.Levels(bits)+"\n\nIt fetches 8 times for 32 values.")
	begin := f.Param("a")
	b := f.Param("b")
	mins := f.Param("mins")
	c := f.Param("c")
	scales := f.Param("scales")
	step := f.Param("step")
	next := f.Param("next")
	records := f.Param("records")
	a := f.R()
	at := f.R()
	planes := f.R()
	scale := f.R()
	left := f.R()
	quarters := f.R()
	f.Constants()
	k := levels{
		Func:  f,
		bits:  bits,
		apart: max(1, bits),
		low:   f.Bits(0x0f0f0f0f),
		mask:  f.Bits((1<<bits - 1) * 0x10101010),
		sum:   f.Vs(2),
		p:     f.V(),
		x:     f.Vs(2),
		scale: f.V(),
	}
	f.Set(4, quarters)
	f.Label("quarter")
	f.Move(begin, a)
	f.Move(b, at)
	f.Move(scales, scale)
	f.Move(records, left)
	f.Set(32*64, planes)
	f.Add(b, planes)
	f.Zero(k.p)
	f.Label("record")
	for range 2 {
		f.Prefetch(neon.Mem{Base: next})
		f.Add(step, next)
	}
	k.record(a, at, planes, scale)
	f.Advance(a, 32+4*k.apart)
	f.Advance(at, 256)
	f.Advance(scale, 64*k.apart)
	if bits > 0 {
		f.Advance(planes, 64*bits)
	}
	f.Again(left, k.apart, "record")
	if bits < 2 {
		f.IfZero(mins, "scale")
		levelsMins(f, a, mins, k.p, k.sum[0])
		f.Advance(a, 20)
		f.Advance(mins, 16)
		f.Label("scale")
	}
	f.SpreadTo(k.scale, neon.Mem{Base: a})
	sumC := f.Load(neon.Mem{Base: c})
	f.Store(f.FMLA(sumC, k.p, k.scale), neon.Mem{Base: c})
	for _, r := range []neon.R{b, scales, c} {
		f.Advance(r, 16)
	}
	f.Again(quarters, 1, "quarter")
	f.Return()
}

// record adds the products of a record to p.
func (k levels) record(a, at, planes, scale neon.R) {
	second := 16
	start := 32 // bytes of A before the words of high halves, and before where sums begin
	if k.apart == 2 {
		second = 20
		start = 16
	}
	var plane []neon.V
	for i := range k.bits {
		plane = append(plane, k.Load(neon.Mem{Base: planes, Off: 64 * i}))
	}
	for half, x := range k.x {
		k.LoadTo(neon.Mem{Base: a, Off: second * half}, x)
		if half < k.apart {
			k.SpreadTo(k.sum[half], neon.Mem{Base: a, Off: start + second*half})
		}
	}
	for w := range 4 {
		y := k.Load(neon.Mem{Base: at, Off: 64 * w})
		for half, v := range []neon.V{k.And(y, k.low), k.And(k.Right(y, 4), k.low)} {
			k.SDotElement(k.sum[half%k.apart], addBits(k.Func, v, plane, w+4*half, k.mask), k.x[half], w)
		}
	}
	for i, sum := range k.sum[:k.apart] {
		k.FloatTo(sum)
		k.LoadTo(neon.Mem{Base: scale, Off: 64 * i}, k.scale)
		k.FMLA(k.p, sum, k.scale)
	}
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
