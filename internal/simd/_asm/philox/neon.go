package philox

import "unmask/internal/simd/_asm/neon"

// groups of four blocks, one a lane, are computed side by side, which hides latency.
const groups = 2

// ARM64 writes the assembly for NEON.
func ARM64(file *neon.File) {
	f := file.Start("fillNEON", signature, doc(4*groups))
	words := f.Param("words")
	s := f.Param("s")
	counter := f.Word("counter")
	n := f.Param("n")
	f.Constants()
	keys := f.R()
	rounds := f.R()
	at := f.V()
	for lane := range 4 { // the use takes 8 bits below the counter
		f.SetLane(at, lane, counter)
		f.Advance(counter, 1<<8)
	}
	m0 := f.Bits(0xD2511F53)
	m1 := f.Bits(0xCD9E8D57)
	next := f.Bits(4 << 8)
	first := f.Load(neon.Mem{Base: s})
	z2 := f.Broadcast(f.LoadScalar(neon.Mem{Base: s, Off: 16}), 0)
	x2 := f.Broadcast(first, 0)
	y0 := f.Broadcast(first, 1)
	z0 := f.Broadcast(first, 2)
	z1 := f.Broadcast(first, 3)
	xor := func(a, b neon.V) neon.V { return f.Xor(f.V(), a, b) }
	f.Each(n, 4*groups, func() {
		var blocks [groups][4]neon.V
		for g := range blocks {
			p1 := times(f, xor(x2, at), m1)
			p0 := times(f, xor(p1.high(), y0), m0)
			blocks[g] = [4]neon.V{xor(z0, p1.low(f.V())), f.Copy(z1), xor(p0.high(), z2), p0.low(f.V())}
			f.IAddTo(at, next)
		}
		f.Move(s, keys)
		f.Advance(keys, 20)
		f.Set(7, rounds)
		f.Repeat(rounds, "round", func() {
			key := f.V()
			f.LoadHalf(neon.Mem{Base: keys, Off: 8, Post: true}, key)
			k0 := f.Broadcast(key, 0)
			k1 := f.Broadcast(key, 1)
			for _, c := range blocks {
				p0 := times(f, c[0], m0)
				p1 := times(f, c[2], m1)
				f.Xor(c[0], xor(p1.high(), c[1]), k0)
				p1.low(c[1])
				f.Xor(c[2], xor(p0.high(), c[3]), k1)
				p0.low(c[3])
			}
		})
		for _, c := range blocks {
			c = f.Turn(c)
			f.StoreAll(c[:], neon.Mem{Base: words})
			f.Advance(words, 64)
		}
	})
	f.Return()
}

// product is a product of 64 bits in each lane: first has those of lanes 0 and 1, last those of 2
// and 3.
type product struct {
	*neon.Func
	first, last neon.V
}

func times(f *neon.Func, a, m neon.V) product {
	return product{f, f.UMull(false, a, m), f.UMull(true, a, m)}
}

func (p product) low(d neon.V) neon.V { return p.Unzip1(d, p.first, p.last) }
func (p product) high() neon.V        { return p.Unzip2(p.V(), p.first, p.last) }
