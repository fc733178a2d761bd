package neongemm

import (
	"fmt"

	"unmask/internal/simd/_asm/gemm"
	"unmask/internal/simd/_asm/neon"
)

const vecs = 4 // of 4 columns each

// kernel is a product with a tile of up to 6 rows and 16 columns. Of the 32 registers, 24
// accumulate, 6 hold half a line of each row of A (an instruction multiplies by one word of it),
// and 2 are left for B. A tile of 8 by 12 would load a little less, but panels of B are 16 wide.
type kernel struct {
	name, loop string
	words      int // of B that half a line of A belongs to
	// step multiplies a vector of B at m with a word of each row of A.
	step func(t *tile, m neon.Mem, j, word int)
}

var f32 = kernel{"F32", gemm.F32Loop, 2, func(t *tile, m neon.Mem, j, word int) {
	t.pair(m, j)
	for i := range t.rows {
		t.FMLAElement(t.acc(i, j), t.b(j), t.a(i), word)
	}
}}

var bf16Wide = kernel{"BF16Wide", gemm.BF16WideLoop, 1, func(t *tile, m neon.Mem, j, word int) {
	for half := range 2 { // a word is loaded twice, because one register is left
		b := t.b(2*j + half)
		t.LoadTo(m, b)
		if half == 0 {
			t.LeftTo(b, b, 16)
		} else {
			t.AndTo(b, b, t.mask)
		}
		for i := range t.rows {
			t.FMLAElement(t.acc(i, j), b, t.a(i), half)
		}
	}
}}

var int8Dot = kernel{"Int8Dot", gemm.Int8Loop("int8"), 2, func(t *tile, m neon.Mem, j, word int) {
	t.pair(m, j)
	for i := range t.rows {
		t.SDotElement(t.acc(i, j), t.b(j), t.a(i), word)
	}
}}

// tile numbers the registers of one row count: accumulators, A, B and a mask.
type tile struct {
	*neon.Func
	rows int
	last int // one more than the last register of B
	mask neon.V
}

func (t *tile) acc(i, j int) neon.V { return neon.V(i*vecs + j) }
func (t *tile) a(i int) neon.V      { return neon.V(t.rows*vecs + i) }

// b takes turns among the registers left, an even number or one.
func (t *tile) b(i int) neon.V {
	first := t.rows * (vecs + 1)
	n := t.last - first
	if n > 1 {
		n = min(n, 2*vecs) &^ 1
	}
	return neon.V(first + i%n)
}

// pair loads vectors j and j+1 of B for even j.
func (t *tile) pair(m neon.Mem, j int) {
	if j%2 == 0 {
		t.LoadPair(m, t.b(j), t.b(j+1))
	}
}

func (t *tile) row(i int) []neon.V {
	v := make([]neon.V, vecs)
	for j := range v {
		v[j] = t.acc(i, j)
	}
	return v
}

// emit writes the kernel of one row count.
func (k kernel) emit(file *neon.File, rows int) {
	f := file.Start(fmt.Sprintf("mul%s_%dx16", k.name, rows), gemm.Signature,
		gemm.Product(rows, 16, k.loop, 32*k.words))
	t := &tile{Func: f, rows: rows, last: 32}
	a := f.Param("a")
	b := f.Param("b")
	from := f.Param("from")
	c := f.Param("c")
	ldf := f.Bytes("ldf")
	ldc := f.Bytes("ldc")
	n := f.Param("lines")
	next := f.Param("next")
	if k.words == 1 {
		t.last = 31
		t.mask = 31
		f.Constants()
		f.BitsTo(0xffff0000, t.mask)
	}
	load := halves(f, a, n, rows)
	for i := range rows {
		f.LoadAll(neon.Mem{Base: from}, t.row(i))
		f.Add(ldf, from)
	}
	f.Label("loop")
	load(t.a)
	fetch(f, next, k.words)
	for word := range k.words {
		for j := range vecs {
			k.step(t, neon.Mem{Base: b, Off: 64*word + 16*j}, j, word)
		}
	}
	f.Advance(b, 64*k.words)
	f.Again(n, 1, "loop")
	for i := range rows {
		f.StoreAll(t.row(i), neon.Mem{Base: c})
		f.Add(ldc, c)
	}
	f.Return()
}

// halves makes n count halves of lines. What it returns loads the next half of each row's line into
// registers: the step of a is 8 bytes and the rest of a line of all rows in turn.
func halves(f *neon.Func, a, n neon.R, rows int) func(register func(row int) neon.V) {
	f.Shift(n, 1)
	step := f.R()
	both := f.R()
	f.Set(8, step)
	f.Set(16*rows, both)
	return func(register func(row int) neon.V) {
		for i := range rows {
			f.LoadHalf(neon.Mem{Base: a, Off: 16 * i}, register(i))
		}
		f.Add(step, a)
		f.Difference(both, step, step)
	}
}

// fetch asks for what will be read of B later: a quarter as much as a trip reads.
func fetch(f *neon.Func, next neon.R, words int) {
	f.Prefetch(neon.Mem{Base: next})
	f.Advance(next, 16*words)
}

// int8Pairs writes the kernel for processors without SDOT. Products of bytes are int16. The sum of
// two still fits, because levels are at most 127. Pairs of these sums are added in int32, so an
// accumulator has two lanes for each of its two columns.
func int8Pairs(file *neon.File, rows int) {
	f := file.Start(fmt.Sprintf("mulInt8Pairs_%dx16", rows), gemm.Signature,
		gemm.Product(rows, 16, int8Dot.loop, 32*int8Dot.words))
	a := f.Param("a")
	b := f.Param("b")
	from := f.Param("from")
	c := f.Param("c")
	ldf := f.Bytes("ldf")
	ldc := f.Bytes("ldc")
	n := f.Param("lines")
	next := f.Param("next")
	sums := make([][]neon.V, rows)
	for i := range sums {
		sums[i] = f.Vs(2 * vecs)
		for _, v := range sums[i] {
			f.Zero(v)
		}
	}
	half := f.Vs(rows)
	load := halves(f, a, n, rows)
	f.Label("loop")
	load(func(i int) neon.V { return half[i] })
	fetch(f, next, int8Dot.words)
	var words [][2]neon.V // of each row, in every lane
	for _, h := range half {
		words = append(words, [2]neon.V{f.Broadcast(h, 0), f.Broadcast(h, 1)})
	}
	for j := range vecs {
		b0 := f.Load(neon.Mem{Base: b, Off: 16 * j})
		b1 := f.Load(neon.Mem{Base: b, Off: 64 + 16*j})
		for i, w := range words {
			for half, high := range []bool{false, true} {
				p := f.SMull(high, b0, w[0])
				f.SMlal(high, p, b1, w[1])
				f.SAdalp(sums[i][2*j+half], p)
			}
		}
	}
	f.Advance(b, 128)
	f.Again(n, 1, "loop")
	for i := range rows {
		for j := range vecs {
			v := f.PairSums(sums[i][2*j], sums[i][2*j+1])
			m := neon.Mem{Base: c, Off: 16 * j}
			f.IAddTo(v, f.Load(neon.Mem{Base: from, Off: 16 * j}))
			f.Store(v, m)
		}
		f.Add(ldf, from)
		f.Add(ldc, c)
	}
	f.Return()
}
