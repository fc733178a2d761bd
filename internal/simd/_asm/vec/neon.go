package vec

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"

	"unmask/internal/simd/_asm/neon"
)

// arm is NEON. A line is read whole where it is first needed and written whole at its end.
type arm struct {
	file   *neon.File
	suffix string
	*neon.Func
	read    map[Op][]neon.V // of the line at hand, by pointer
	written []neon.V
	to      neon.R // where
}

// part is the place of register i of a line.
type part struct {
	neon.R
	i int
}

func (a *arm) text(name, signature, doc string) {
	a.Func = a.file.Start(name+a.suffix, signature, describe(doc))
	a.Constants()
}

func (a *arm) pointer(name string) Op { return a.Param(name) }
func (a *arm) splat(name string) Op   { return a.Splat(name) }

func (a *arm) ret(results ...Op) {
	var v []neon.V
	for _, r := range results {
		v = append(v, r.(neon.V))
	}
	a.Return(v...)
}

func (a *arm) perLine() int { return 4 }

func (a *arm) repeat(n Op, body func()) { a.Repeat(n.(neon.R), "loop", body) }

func (a *arm) line(body func(i int, at func(Op) Op)) {
	a.read = map[Op][]neon.V{}
	a.written = nil
	for i := range a.perLine() {
		body(i, func(p Op) Op { return part{p.(neon.R), i} })
	}
	a.StoreAll(a.written, neon.Mem{Base: a.to})
}

func (a *arm) lines(n Op, pointers []Op, body func(i int, at func(Op) Op)) {
	a.Each(n.(neon.R), 16, func() {
		a.line(body)
		for _, p := range pointers {
			a.Advance(p.(neon.R), 64)
		}
	})
}

// each moves pointers on where body uses them.
func (a *arm) each(n Op, _ []Op, body func(at func(Op) Op)) {
	a.Each(n.(neon.R), 4, func() {
		body(func(p Op) Op { return neon.Mem{Base: p.(neon.R), Off: 16, Post: true} })
	})
}

func (a *arm) stream(n Op, pointers []Op, body func(at func(Op) Op)) {
	a.lines(n, pointers, func(_ int, at func(Op) Op) { body(at) })
}

func (a *arm) rows(rows, n Op, places, strides []Op, begin func(), column func(line lineFunc)) {
	at := map[Op]Op{}
	left := a.R()
	for _, p := range places {
		at[p] = a.R()
	}
	a.Label("row")
	for _, p := range places {
		a.Move(p.(neon.R), at[p].(neon.R))
	}
	a.Move(n.(neon.R), left)
	begin()
	a.Label("column")
	column(func(body func(i int, at func(Op) Op)) {
		a.line(func(i int, of func(Op) Op) { body(i, func(p Op) Op { return of(at[p]) }) })
	})
	for _, p := range places {
		a.Advance(at[p].(neon.R), 64)
	}
	a.Again(left, 16, "column")
	for i, stride := range strides {
		a.AddShifted(stride.(neon.R), 2, places[i].(neon.R), places[i].(neon.R))
	}
	a.Again(rows.(neon.R), 1, "row")
}

func (a *arm) when(flag Op, name string, body func()) {
	a.IfZero(flag.(neon.R), name)
	body()
	a.Label(name)
}

func (a *arm) spreadNext(pointer Op) Op {
	return a.Broadcast(a.LoadScalar(neon.Mem{Base: pointer.(neon.R), Off: 4, Post: true}), 0)
}

func (a *arm) beyond(n Op) func(pointer Op) Op {
	return func(p Op) Op {
		r := a.R()
		a.AddShifted(n.(neon.R), 2, p.(neon.R), r)
		return r
	}
}

func (a *arm) advance(bytes, pointer Op) { a.Add(bytes.(neon.R), pointer.(neon.R)) }

// load has nothing to do for what a line has read.
func (a *arm) load(place Op) Op {
	p, ok := place.(part)
	if !ok {
		return a.Load(place.(neon.Mem))
	}
	if a.read[p.R] == nil {
		a.read[p.R] = a.Vs(a.perLine())
		a.LoadAll(neon.Mem{Base: p.R}, a.read[p.R])
	}
	return a.read[p.R][p.i]
}

func (a *arm) store(x, place Op) {
	if m, ok := place.(neon.Mem); ok {
		a.Store(x.(neon.V), m)
		return
	}
	a.written, a.to = append(a.written, x.(neon.V)), place.(part).R
}

func (a *arm) fetch(place Op) {
	p := place.(part)
	a.Prefetch(neon.Mem{Base: p.R, Off: 16 * p.i})
}

// v is a vector, loaded if it is a place.
func (a *arm) v(x Op) neon.V {
	if v, ok := x.(neon.V); ok {
		return v
	}
	return a.load(x).(neon.V)
}

// keep does nothing: a constant is an instruction of its own anyway.
func (a *arm) keep(...float64) {}

func (a *arm) k(x float64) Op { return a.K(x) }
func (a *arm) m(x float64) Op { return a.K(x) }

func (a *arm) all(x float64) (line []Op) {
	for range a.perLine() {
		line = append(line, a.K(x))
	}
	return line
}

func (a *arm) zeros() (line []Op) {
	for _, v := range a.Vs(a.perLine()) {
		a.Zero(v)
		line = append(line, v)
	}
	return line
}

func (a *arm) add(x, y Op) Op     { return a.FAdd(a.v(x), a.v(y)) }
func (a *arm) sub(x, y Op) Op     { return a.FSub(a.v(x), a.v(y)) }
func (a *arm) mul(x, y Op) Op     { return a.FMul(a.v(x), a.v(y)) }
func (a *arm) div(x, y Op) Op     { return a.FDiv(a.v(x), a.v(y)) }
func (a *arm) max(x, y Op) Op     { return a.FMax(a.v(x), a.v(y)) }
func (a *arm) min(x, y Op) Op     { return a.FMin(a.v(x), a.v(y)) }
func (a *arm) fma(x, y, z Op) Op  { return a.FMLA(a.Copy(a.v(z)), a.v(x), a.v(y)) }
func (a *arm) fnma(x, y, z Op) Op { return a.FMLS(a.Copy(a.v(z)), a.v(x), a.v(y)) }
func (a *arm) fms(x, y, z Op) Op  { return a.FMLA(a.FNeg(a.v(z)), a.v(x), a.v(y)) }
func (a *arm) next(p, x, c Op) Op { return a.fma(p, x, c) }
func (a *arm) abs(x Op) Op        { return a.FAbs(a.v(x)) }
func (a *arm) minus(x Op) Op      { return a.FNeg(a.v(x)) }

// relu keeps -0 and NaN, as the others do.
func (a *arm) relu(x Op) Op { return a.AndNot(a.v(x), a.FNegative(a.v(x))) }

func (a *arm) negative(x, y, z Op) Op { return a.Select(a.Negative(a.v(x)), a.v(y), a.v(z)) }

func (a *arm) addTo(sum, x Op)    { a.AddTo(a.v(sum), a.v(x)) }
func (a *arm) maxTo(top, x Op)    { a.MaxTo(a.v(top), a.v(x)) }
func (a *arm) fmaTo(sum, x, y Op) { a.FMLA(a.v(sum), a.v(x), a.v(y)) }
func (a *arm) sum(line []Op) Op   { return a.reduce(line, a.addTo) }
func (a *arm) top(line []Op) Op   { return a.reduce(line, a.maxTo) }

func (a *arm) reduce(line []Op, into func(sum, x Op)) Op {
	into(line[0], line[2])
	into(line[1], line[3])
	into(line[0], line[1])
	into(line[0], a.HighHalf(a.v(line[0])))
	into(line[0], a.Broadcast(a.v(line[0]), 1))
	return line[0]
}

func (a *arm) word(bits uint32) Op   { return a.Bits(bits) }
func (a *arm) right(x Op, by int) Op { return a.Right(a.v(x), by) }
func (a *arm) isub(x, y Op) Op       { return a.ISub(a.v(x), a.v(y)) }
func (a *arm) float(x Op) Op         { return a.Float(a.v(x)) }

// exponents are 2^a and 2^b for n = a+b.
func (a *arm) exponents(n Op) any {
	i := a.Round(a.v(n))
	half := a.SRight(i, 1)
	of := func(i neon.V) neon.V { return a.Left(a.IAdd(i, a.Bits(127)), 23) }
	return [2]neon.V{of(half), of(a.ISub(i, half))}
}

func (a *arm) scale(x Op, n any) Op {
	e := n.([2]neon.V)
	return a.FMul(a.FMul(a.v(x), e[0]), e[1])
}

func (a *arm) scaleWhere(x, q Op, n any) Op { return a.negative(x, a.scale(q, n), q) }

func (a *arm) power(t, p Op) Op { return a.FMul(a.v(p), a.Left(a.v(t), 23)) }

// leaders counts what equals the maximum one by one, beside the loop.
func (a *arm) leaders() {
	x := a.Param("x")
	n := a.Param("n")
	top := a.Splat("top")
	count := a.R()
	first := a.R()
	at := a.R()
	any := a.R()
	lane := a.R()
	a.Set(0, count)
	a.Set(-1, first)
	a.Set(0, at)
	second := a.all(math.Inf(-1))
	a.Each(n, 16, func() {
		line := a.Vs(4)
		equal := [4]neon.V{}
		a.LoadAll(neon.Mem{Base: x}, line)
		for i, v := range line {
			equal[i] = a.Equal(v, top)
			a.Insert(a.v(second[i]), v, a.Or(a.Greater(a.v(second[i]), v), equal[i]))
		}
		found := a.Or(a.Or(equal[0], equal[1]), a.Or(equal[2], equal[3]))
		a.Low(a.Or(found, a.HighHalf(found)), any)
		a.IfZero(any, "next")
		a.Set(0, lane)
		a.Label("lane")
		a.BranchUnlessEqual(a.LoadScalar(neon.Mem{Base: x, Off: 4, Post: true}), top, "other")
		a.Advance(count, 1)
		a.Compare(first, 0)
		a.Branch("GE", "other")
		a.Sum(at, lane, first)
		a.Label("other")
		a.Advance(lane, 1)
		a.Compare(lane, 16)
		a.Branch("NE", "lane")
		a.Advance(x, -64)
		a.Label("next")
		a.Advance(x, 64)
		a.Advance(at, 16)
	})
	a.Results(a.v(a.top(second)), count, first)
}

func (a *arm) transposed() {
	dst := a.Param("dst")
	src := a.Param("src")
	factors := a.Param("scale")
	dstStride := a.Param("dstStride")
	srcStride := a.Param("srcStride")
	dstStep := a.Param("dstStep")
	srcStep := a.Param("srcStep")
	blocks := a.Param("blocks")
	from := a.R()
	to := a.R()
	scale := a.Vs(2)
	a.LoadAll(neon.Mem{Base: factors}, scale)
	a.Repeat(blocks, "loop", func() {
		a.Move(src, from)
		a.Move(dst, to)
		var rows [2][8]neon.V // of the left and right halves
		for i := range 8 {
			v := a.Vs(2)
			a.LoadAll(neon.Mem{Base: from}, v)
			a.Add(srcStride, from)
			for h := range v {
				rows[h][i] = a.FMul(v[h], scale[h])
			}
		}
		for _, half := range rows {
			top := a.Turn([4]neon.V(half[:4]))
			bottom := a.Turn([4]neon.V(half[4:]))
			for j := range top {
				a.StorePair(top[j], bottom[j], neon.Mem{Base: to})
				a.Add(dstStride, to)
			}
		}
		a.Add(dstStep, dst)
		a.Add(srcStep, src)
	})
}

// greater makes a byte of each lane of a comparison, of which the bit of its place is kept; three
// sums of neighbours leave a byte for each eight.
func (a *arm) greater(set, n Op, pointers []Op, compare func(at func(Op) Op) (x, y Op)) {
	places := a.Zip1(a.Bits(0x08040201), a.Bits(0x80402010))
	a.Each(n.(neon.R), 16, func() {
		var v [4]neon.V
		a.line(func(i int, at func(Op) Op) {
			x, y := compare(at)
			v[i] = a.Greater(a.v(x), a.v(y))
		})
		for _, p := range pointers {
			a.Advance(p.(neon.R), 64)
		}
		bits := a.And(a.NarrowBytes(a.Narrow(v[0], v[1]), a.Narrow(v[2], v[3])), places)
		for range 3 {
			bits = a.PairByteSums(bits)
		}
		a.StoreShort(bits, neon.Mem{Base: set.(neon.R), Off: 2, Post: true})
	})
	a.Return()
}
