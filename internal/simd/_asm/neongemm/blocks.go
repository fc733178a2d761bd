package neongemm

import (
	"fmt"
	"slices"

	"unmask/internal/simd/_asm/gemm"
	"unmask/internal/simd/_asm/neon"
)

// blocks is a kernel of block formats being written.
type blocks struct {
	*neon.Func
	rows int
	dot  bool       // with SDOT: otherwise sums[i] are pairs
	step int        // words taken at a time: 2 without SDOT
	sums [][]neon.V // of each row
	b    []neon.V   // words of B, or scales
	x    []neon.V   // words of A
	t    []neon.V
}

// writeBlocks writes the kernel of block formats for processors with SDOT, or without. Results of a
// group, p, are in memory.
func writeBlocks(file *neon.File, rows int, dot bool) {
	name := fmt.Sprintf("mulBlocksDot_%dx16", rows)
	if !dot {
		name = fmt.Sprintf("mulBlocksPairs_%dx16", rows)
	}
	f := file.Start(name, gemm.BlocksSignature("p"), gemm.Blocks(rows, 16, "int8", 1, true))
	k := newBlocks(f, rows, dot)
	a := f.Param("a")
	allB := f.Param("b")
	allMins := f.Param("mins")
	c := f.Param("c")
	p := f.Param("p")
	ldc := f.Bytes("ldc")
	panels := f.Param("panels")
	skip := f.Param("skip")
	allRecords := f.Param("records")
	allWords := f.Param("words")
	next := f.Param("next")
	ahead := f.Param("step")
	b := f.R()
	mins := f.R()
	records := f.R()
	words := f.R()
	begin := f.R()
	left := f.R()
	high := f.R()
	at := f.R()
	f.Label("panel")
	f.Move(allB, b)
	f.Move(allMins, mins)
	f.Move(allRecords, records)
	f.Move(allWords, words)
	f.Set(0, high) // whether the words are of the sums' high bytes
	f.Set(4*rows, begin)
	f.Multiply(words, begin) // from a record's words to where its sums begin
	k.clear(p)
	f.Label("record")
	f.Sum(a, begin, at)
	k.begin(at)
	f.Move(words, left)
	f.Label("word")
	for range k.step {
		f.Prefetch(neon.Mem{Base: next})
		f.Add(ahead, next)
	}
	k.words(a, b)
	f.Again(left, k.step, "word")
	f.IfZero(high, "finish")
	f.Set(0, high)
	for _, v := range slices.Concat(k.sums...) {
		f.LeftTo(v, v, 6)
	}
	f.Advance(b, -128)
	f.Move(words, left)
	f.Branch("", "word")
	f.Label("finish")
	f.LoadAll(neon.Mem{Base: b}, k.b)
	k.finish(a, p)
	f.Advance(a, 4*rows)
	f.Advance(b, 64)
	f.Again(records, 1, "record")
	f.IfZero(mins, "end")
	f.Move(mins, b)
	f.Set(0, mins)
	f.Set(1, records)
	f.Set(1, high)
	f.Set(2, words)
	f.Set(4*4*rows, begin)
	f.Branch("", "record")
	f.Label("end")
	k.add(a, c, ldc, p, left)
	f.Add(skip, a)
	f.Again(panels, 1, "panel")
	f.Return()
}

// newBlocks chooses registers: with SDOT sums are in V0 to V23, 4 of a row.
func newBlocks(f *neon.Func, rows int, dot bool) *blocks {
	k := &blocks{Func: f, rows: rows, dot: dot, step: 1, sums: make([][]neon.V, rows)}
	if !dot {
		k.step = 2
		for i := range k.sums {
			k.sums[i] = f.Vs(2 * vecs)
		}
		k.b, k.x, k.t = f.Vs(vecs), f.Vs(2*rows), f.Vs(4)
		return k
	}
	for i := range k.sums {
		for j := range vecs {
			k.sums[i] = append(k.sums[i], neon.V(i*vecs+j))
		}
	}
	k.b = []neon.V{24, 25, 26, 27}
	k.x = []neon.V{28, 29}
	k.t = []neon.V{30, 31}
	return k
}

// clear sets the results at p to 0.
func (k *blocks) clear(p neon.R) {
	zero := k.t[0]
	k.Zero(zero)
	for i := range k.rows {
		k.StoreAll([]neon.V{zero, zero, zero, zero}, neon.Mem{Base: p, Off: 64 * i})
	}
}

// begin sets the sums to what is behind a record's words. Those in pairs begin with 0.
func (k *blocks) begin(at neon.R) {
	for i, row := range k.sums {
		m := neon.Mem{Base: at, Off: 4 * i}
		if !k.dot {
			for _, v := range row {
				k.Zero(v)
			}
			continue
		}
		k.LoadScalarTo(m, k.x[0])
		for _, v := range row {
			k.BroadcastTo(v, k.x[0], 0)
		}
	}
}

// words multiplies a step's words and moves a and b behind them.
func (k *blocks) words(a, b neon.R) {
	if k.dot {
		k.word(a, b)
	} else {
		k.twoWords(a, b)
	}
	k.Advance(a, 4*k.rows*k.step)
	k.Advance(b, 64*k.step)
}

// word multiplies a word of every row with one of every column.
func (k *blocks) word(a, b neon.R) {
	switch k.rows {
	case 6:
		k.LoadTo(neon.Mem{Base: a}, k.x[0])
		k.LoadHalf(neon.Mem{Base: a, Off: 16}, k.x[1])
	case 2:
		k.LoadHalf(neon.Mem{Base: a}, k.x[0])
	default:
		k.LoadScalarTo(neon.Mem{Base: a}, k.x[0])
	}
	k.LoadAll(neon.Mem{Base: b}, k.b)
	for i, row := range k.sums {
		for j, v := range row {
			k.SDotElement(v, k.b[j], k.x[i/4], i%4)
		}
	}
}

// twoWords multiplies two words. Products of bytes are int16. The sum of two still fits, because
// the rows' levels are at most 127. Pairs of these sums are added in int32.
func (k *blocks) twoWords(a, b neon.R) {
	for i, x := range k.x {
		k.SpreadTo(x, neon.Mem{Base: a, Off: 4 * i}) // of word i/rows
	}
	for j := range vecs {
		k.LoadTo(neon.Mem{Base: b, Off: 16 * j}, k.b[0])
		k.LoadTo(neon.Mem{Base: b, Off: 64 + 16*j}, k.b[1])
		for i, row := range k.sums {
			for half, high := range []bool{false, true} {
				p := k.SMull(high, k.b[0], k.x[i])
				k.SMlal(high, p, k.b[1], k.x[k.rows+i])
				k.SAdalp(row[2*j+half], p)
			}
		}
	}
}

// finish adds a record's sums times the scales in b to the results at p. a is behind the words.
func (k *blocks) finish(a, p neon.R) {
	for i, row := range k.sums {
		if !k.dot {
			k.SpreadTo(k.x[0], neon.Mem{Base: a, Off: 4 * i})
		}
		for j := range vecs {
			m := neon.Mem{Base: p, Off: 64*i + 16*j}
			sum := row[j]
			if !k.dot {
				sum = k.PairSums(row[2*j], row[2*j+1])
				k.IAddTo(sum, k.x[0])
			}
			k.LoadTo(m, k.t[j%2])
			k.FloatTo(sum)
			k.Store(k.FMLA(k.t[j%2], sum, k.b[j]), m)
		}
	}
}

// add adds the results at p, times the rows' scales at a, to c.
func (k *blocks) add(a, c, ldc, p, left neon.R) {
	k.Set(k.rows, left)
	k.Label("row")
	k.SpreadTo(k.x[0], neon.Mem{Base: a})
	k.LoadAll(neon.Mem{Base: p}, k.b)
	for j := range vecs {
		m := neon.Mem{Base: c, Off: 16 * j}
		k.LoadTo(m, k.t[j%2])
		k.Store(k.FMLA(k.t[j%2], k.b[j], k.x[0]), m)
	}
	k.Advance(a, 4)
	k.Advance(p, 64)
	k.Add(ldc, c)
	k.Again(left, 1, "row")
	k.Advance(p, -64*k.rows)
}

// quantiseRuns rounds rows to levels.
func quantiseRuns(file *neon.File) {
	f := file.Start("quantiseRuns", "(dst, sums, x, inverse *float32, n int)", gemm.QuantiseRuns)
	dst := f.Param("dst")
	sums := f.Param("sums")
	x := f.Param("x")
	inverse := f.Param("inverse")
	n := f.Param("n")
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
	f.Again(n, 1, "loop")
	f.Return()
}

// unpack writes the function that makes bytes of levels of 4 bits and none, one or two more.
func unpack(file *neon.File, name string, bits int) {
	f := file.Start(name, gemm.UnpackSignature, gemm.Unpack(bits))
	dst := f.Param("dst")
	src := f.Param("src")
	high := f.Param("high")
	width := f.Param("width")
	half := f.Param("half")
	blocks := f.Param("blocks")
	stride := f.Param("stride")
	f.Constants()
	low := f.Bits(0x0f0f0f0f)
	mask := f.Bits((1<<bits - 1) * 0x10101010)
	left := f.R()
	from := f.R()
	to := f.R()
	other := f.R()
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
			f.Store(addBits(f, words[i], planes, p+4*i, mask), neon.Mem{Base: r})
			f.Add(width, r)
		}
		f.Add(width, from)
	}
	f.Advance(src, 16)
	f.Advance(dst, 16)
	if bits > 0 {
		f.Advance(high, 16)
	}
	f.Again(left, 16, "columns")
	for range 3 {
		f.Add(width, src)
	}
	f.Add(stride, dst)
	if bits > 1 {
		f.Add(width, high)
	}
	f.Again(blocks, 1, "block")
	f.Return()
}

// addBits is v with the bits that planes have for word w above its 4.
func addBits(f *neon.Func, v neon.V, planes []neon.V, w int, mask neon.V) neon.V {
	if planes == nil {
		return v
	}
	bits := len(planes)
	high := planes[bits*w/8]
	by := 4 - bits*w%8
	switch {
	case by > 0:
		high = f.Left(high, by)
	case by < 0:
		high = f.Right(high, -by)
	}
	return f.Or(v, f.And(high, mask))
}

// expandScales makes float32 of scales that are small integers.
func expandScales(file *neon.File) {
	f := file.Start("expandScales", gemm.ExpandSignature, gemm.ExpandScales)
	dst := f.Param("dst")
	d := f.Param("d")
	levels := f.Param("levels")
	columns := f.Param("columns")
	rows := f.Param("rows")
	stride := f.Param("stride")
	left := f.R()
	to := f.R()
	by := f.R()
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
	f.Again(left, 8, "columns")
	f.Add(stride, dst)
	f.Again(rows, 1, "row")
	f.Return()
}
