package main

import (
	"fmt"

	"unmask/internal/simd/_asm/neon"
)

// blocksDot writes the kernel of block formats for processors with SDOT. Sums are in V0 to V23, 4
// of a row; B's words and scales are in V24 to V27.
func blocksDot(file *neon.File, rows int) {
	name := fmt.Sprintf("mulBlocksDot_%dx16", rows)
	doc := fmt.Sprintf(`is, for i of %d rows and j of 16 columns, with c = 0 first unless acc:

	for r := range records {
		sum := a[r].begin[i]
		for w := range words { for t := range 4 { sum += int32(int8(a[r][w][i][t])) * int32(int8(b[r][w][j][t])) } }
		c[i][j] = fma(float32(sum), a[r].scale[i]*b[r].scale[j], c[i][j])
	}

and fetches 64 bytes a word from next on into the caches.`, rows)
	file.Func(name, "(a, b, c *float32, ldc, records, words, acc int, next uintptr)", doc,
		func(f *neon.Func) {
			const (
				b0     = neon.V(24)
				x0, x1 = neon.V(28), neon.V(29) // words of A's rows; the first also a row's scale
				t0, t1 = neon.V(30), neon.V(31)
			)
			acc := func(i, j int) neon.V { return neon.V(i*vecs + j) }
			words4 := []neon.V{b0, b0 + 1, b0 + 2, b0 + 3}
			a, b, c := f.Param("a"), f.Param("b"), f.Param("c")
			ldc, records, words, add, next := f.Bytes("ldc"), f.Param("records"), f.Param("words"),
				f.Param("acc"), f.Param("next")
			at, left := f.R(), f.R()
			f.Zero(t0)
			f.IfZero(add, "zero")
			f.Branch("", "record")
			f.Label("zero")
			f.Move(c, at)
			for range rows {
				f.StoreAll([]neon.V{t0, t0, t0, t0}, neon.Mem{Base: at})
				f.Add(ldc, at)
			}
			f.Label("record")
			f.Set(4*rows, at) // from the record's words to where its sums begin
			f.Multiply(words, at)
			f.Add(a, at)
			for i := range rows {
				f.LoadScalarTo(neon.Mem{Base: at, Off: 4 * i}, x0)
				for j := range vecs {
					f.BroadcastTo(acc(i, j), x0, 0)
				}
			}
			f.Move(words, left)
			f.Label("word")
			switch rows {
			case 6:
				f.LoadTo(neon.Mem{Base: a}, x0)
				f.LoadHalf(neon.Mem{Base: a, Off: 16}, x1)
			case 2:
				f.LoadHalf(neon.Mem{Base: a}, x0)
			default:
				f.LoadScalarTo(neon.Mem{Base: a}, x0)
			}
			f.LoadAll(neon.Mem{Base: b}, words4)
			f.Prefetch(neon.Mem{Base: next})
			for i := range rows {
				for j := range vecs {
					f.SDotElement(acc(i, j), words4[j], x0+neon.V(i/4), i%4)
				}
			}
			f.Advance(a, 4*rows)
			f.Advance(b, 64)
			f.Advance(next, 64)
			f.Decrease(left, 1)
			f.Branch("NE", "word")
			f.LoadAll(neon.Mem{Base: b}, words4)
			f.Move(c, at)
			for i := range rows {
				f.LoadScalarTo(neon.Mem{Base: a, Off: 4 * (rows + i)}, x0)
				f.BroadcastTo(x0, x0, 0)
				for j := range vecs {
					m := neon.Mem{Base: at, Off: 16 * j}
					f.ProductTo(t0, words4[j], x0)
					f.LoadTo(m, t1)
					f.FloatTo(acc(i, j))
					f.FMLA(t1, acc(i, j), t0)
					f.Store(t1, m)
				}
				f.Add(ldc, at)
			}
			f.Advance(a, 8*rows)
			f.Advance(b, 64)
			f.Decrease(records, 1)
			f.Branch("NE", "record")
			f.Return()
		})
}

// quantiseRuns rounds rows to levels.
func quantiseRuns(file *neon.File) {
	file.Func("quantiseRuns", "(dst, sums, x, inverse *float32, n int)", `is, for 32n values, where dst holds int8 and sums int32, from 0:

	for i := range 32*n { dst[i] = int8(round(x[i]*inverse[i/32])); sums[i/16] += dst[i] }`, func(f *neon.Func) {
		dst, sums, x, inverse, n := f.Param("dst"), f.Param("sums"), f.Param("x"), f.Param("inverse"),
			f.Param("n")
		f.Constants()
		ones := f.Bits(0x01010101)
		f.Label("loop")
		by := f.Broadcast(f.LoadScalar(neon.Mem{Base: inverse, Off: 4, Post: true}), 0)
		var total [2]neon.V
		for half := range total {
			var r [4]neon.V
			for i := range r {
				r[i] = f.Round(f.FMul(f.Load(neon.Mem{Base: x, Off: 64*half + 16*i}), by))
			}
			q := f.NarrowBytes(f.Narrow(r[0], r[1]), f.Narrow(r[2], r[3]))
			f.Store(q, neon.Mem{Base: dst, Off: 16 * half})
			total[half] = f.V()
			f.Zero(total[half])
			for _, high := range []bool{false, true} {
				f.SAdalp(total[half], f.SMull(high, q, ones))
			}
		}
		both := f.PairSums(total[0], total[1])
		f.StoreHalf(f.PairSums(both, both), neon.Mem{Base: sums})
		f.Advance(dst, 32)
		f.Advance(sums, 8)
		f.Advance(x, 128)
		f.Decrease(n, 1)
		f.Branch("NE", "loop")
		f.Return()
	})
}

// unpack writes the function that makes bytes of levels of 4 bits and none, one or two more.
func unpack(file *neon.File, name string, bits int) {
	loop := "v[w][i] = src[w%4][i] >> (w/4*4) & 15"
	if bits > 0 {
		loop += fmt.Sprintf(" | high[%d*w/8][i] >> (%d*w%%8) & %d << 4", bits, bits, 1<<bits-1)
	}
	file.Func(name, "(dst, src, high *float32, width, half, blocks, stride int)", `makes bytes of levels. Of each of blocks, which are stride bytes apart in dst, words 0 to 3 go
to dst and 4 to 7 half bytes after:

	for w := range 8 { for i := range width { `+loop+` } }`, func(f *neon.Func) {
		dst, src, high := f.Param("dst"), f.Param("src"), f.Param("high")
		width, half, blocks, stride := f.Param("width"), f.Param("half"), f.Param("blocks"),
			f.Param("stride")
		f.Constants()
		low, mask := f.Bits(0x0f0f0f0f), f.Bits([]uint32{0, 0x10101010, 0x30303030}[bits])
		left, from, to, other := f.R(), f.R(), f.R(), f.R()
		f.Difference(stride, width, stride) // what is left when a block's columns are done
		f.Label("block")
		f.Move(width, left)
		f.Label("columns")
		var planes []neon.V
		if bits > 0 {
			planes = append(planes, f.Load(neon.Mem{Base: high}))
		}
		if bits > 1 {
			f.Sum(high, width, from)
			planes = append(planes, f.Load(neon.Mem{Base: from}))
		}
		f.Move(src, from)
		f.Move(dst, to)
		f.Sum(dst, half, other)
		for p := range 4 {
			x := f.Load(neon.Mem{Base: from})
			words := [2]neon.V{f.And(x, low), f.And(f.Right(x, 4), low)}
			for i, r := range []neon.R{to, other} {
				v, w := words[i], p+4*i
				if bits > 0 {
					v = f.Or(v, f.And(moved(f, planes[bits*w/8], 4-bits*w%8), mask))
				}
				f.Store(v, neon.Mem{Base: r})
				f.Add(width, r)
			}
			f.Add(width, from)
		}
		f.Advance(src, 16)
		f.Advance(dst, 16)
		if bits > 0 {
			f.Advance(high, 16)
		}
		f.Decrease(left, 16)
		f.Branch("NE", "columns")
		for range 3 {
			f.Add(width, src)
		}
		f.Add(stride, dst)
		if bits > 1 {
			f.Add(width, high)
		}
		f.Decrease(blocks, 1)
		f.Branch("NE", "block")
		f.Return()
	})
}

// moved shifts to the left, or by less than 0 to the right.
func moved(f *neon.Func, v neon.V, by int) neon.V {
	switch {
	case by > 0:
		return f.Left(v, by)
	case by < 0:
		return f.Right(v, -by)
	}
	return v
}

// expandScales makes float32 of scales that are small integers.
func expandScales(file *neon.File) {
	file.Func("expandScales", "(dst, d, levels *float32, columns, rows, stride int)", `is, for j of columns and i of rows, which are stride bytes apart:

	dst[i][j] = d[j] * float32(int8(levels[i][j]))`, func(f *neon.Func) {
		dst, d, levels := f.Param("dst"), f.Param("d"), f.Param("levels")
		columns, rows, stride := f.Param("columns"), f.Param("rows"), f.Param("stride")
		left, to, by := f.R(), f.R(), f.R()
		f.Label("row")
		f.Move(columns, left)
		f.Move(dst, to)
		f.Move(d, by)
		f.Label("columns")
		q := f.V()
		f.LoadHalf(neon.Mem{Base: levels}, q)
		low, high := f.Widen(q)
		scale := f.Vs(2)
		f.LoadAll(neon.Mem{Base: by}, scale)
		f.StoreAll([]neon.V{f.FMul(f.Float(low), scale[0]), f.FMul(f.Float(high), scale[1])},
			neon.Mem{Base: to})
		f.Advance(levels, 8)
		f.Advance(by, 32)
		f.Advance(to, 32)
		f.Decrease(left, 8)
		f.Branch("NE", "columns")
		f.Add(stride, dst)
		f.Decrease(rows, 1)
		f.Branch("NE", "row")
		f.Return()
	})
}
