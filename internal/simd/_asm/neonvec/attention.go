package main

import (
	"fmt"

	"unmask/internal/simd/_asm/neon"
)

// panel is the layout of queries in attention: each of the 4 lanes of `columns` registers holds one
// query. tile is the number of keys, or of value columns, that are accumulated at a time. In the
// wide panel 24 of 32 registers accumulate. The narrow one is for the last queries of a segment.
type panel struct {
	name          string
	columns, tile int
}

// step is the bytes of one line of a panel.
func (p panel) step() int { return 16 * p.columns }

func (p panel) row(k kernel, m neon.Mem) []neon.V {
	v := k.Vs(p.columns)
	k.LoadAll(m, v)
	return v
}

// fetches describes the prefetching that a product does: the next keys and values come from memory
// while the present ones are multiplied.
const fetches = "Meanwhile 4*keys*dim bytes from next on are fetched into the caches."

// scores writes the products of a block of keys with a panel of queries.
func (p panel) scores(file *neon.File) {
	lanes := 4 * p.columns
	write(file, "scores"+p.name, "(s, k, q *float32, keys, dim int, next uintptr)", fmt.Sprintf(
		"\tfor i := range keys {\n\t\tfor j := range %d {\n\t\t\ts[i][j] = 0\n\t\t\tfor d := range dim "+
			"{ s[i][j] += k[i][d]*q[d][j] }\n\t\t}\n\t}\n\n"+
			"s is [keys, %d], k [keys, dim], q [dim, %d]. "+fetches, lanes, lanes, lanes), func(k kernel) {
		s, key, q, keys, dim, next := k.Param("s"), k.Param("k"), k.Param("q"), k.Param("keys"),
			k.Param("dim"), k.Param("next")
		stride, line, n := k.R(), k.R(), k.R()
		k.Move(dim, stride)
		k.Shift(stride, 2)
		rows := []neon.R{key}
		for range p.tile - 1 {
			rows = append(rows, k.R())
		}
		p.tiles(k, keys, func(tile int, l func(string) string) {
			acc := make([][]neon.V, tile)
			for i := range acc {
				acc[i] = k.zeros(p.columns)
				if i > 0 {
					k.Sum(rows[i-1], stride, rows[i])
				}
			}
			k.Move(q, line)
			k.Move(dim, n)
			k.Label(l("term"))
			k.Prefetch(neon.Mem{Base: next})
			k.Advance(next, 4*tile)
			b := p.row(k, neon.Mem{Base: line})
			for i, row := range acc {
				a := k.LoadScalar(neon.Mem{Base: rows[i], Off: 4, Post: true})
				for j := range b {
					k.FMLAElement(row[j], b[j], a, 0)
				}
			}
			k.Advance(line, p.step())
			k.Decrease(n, 1)
			k.Branch("NE", l("term"))
			for i, row := range acc {
				k.StoreAll(row, neon.Mem{Base: s, Off: i * p.step()})
			}
			k.Advance(s, tile*p.step())
			if tile > 1 {
				k.Move(rows[tile-1], key) // which is at the key after the tile
			}
		})
	})
}

// tiles runs body for tiles of n, as many as fit, and then for single ones.
func (p panel) tiles(k kernel, n neon.R, body func(tile int, label func(string) string)) {
	for _, tile := range []int{p.tile, 1} {
		l := func(s string) string { return fmt.Sprintf("%s%d", s, tile) }
		k.Label(l("tile"))
		k.Compare(n, tile)
		k.Branch("LT", l("end"))
		body(tile, l)
		k.Decrease(n, tile)
		k.Branch("", l("tile"))
		k.Label(l("end"))
	}
	k.Return()
}

// values writes the product of a block of values with the weights of a panel of queries.
func (p panel) values(file *neon.File) {
	lanes := 4 * p.columns
	write(file, "values"+p.name, "(o, v, s, alpha *float32, keys, dim int, next uintptr)", fmt.Sprintf(
		"\tfor d := range dim {\n\t\tfor j := range %d {\n\t\t\to[d][j] *= alpha[j]\n\t\t\tfor i := "+
			"range keys { o[d][j] += v[i][d]*s[i][j] }\n\t\t}\n\t}\n\n"+
			"o is [dim, %d], v [keys, dim], s [keys, %d]. "+fetches, lanes, lanes, lanes), func(k kernel) {
		o, v, s, alpha, keys, dim, next := k.Param("o"), k.Param("v"), k.Param("s"), k.Param("alpha"),
			k.Param("keys"), k.Param("dim"), k.Param("next")
		stride, row, line, n := k.R(), k.R(), k.R(), k.R()
		k.Move(dim, stride)
		k.Shift(stride, 2)
		p.tiles(k, dim, func(tile int, l func(string) string) {
			acc := make([][]neon.V, tile)
			shrink := p.row(k, neon.Mem{Base: alpha})
			for i := range acc {
				acc[i] = p.row(k, neon.Mem{Base: o, Off: i * p.step()})
				for j, a := range shrink {
					k.MulTo(acc[i][j], a)
				}
			}
			k.Move(v, row)
			k.Move(s, line)
			k.Move(keys, n)
			k.Label(l("term"))
			k.Prefetch(neon.Mem{Base: next})
			k.Advance(next, 4*tile)
			b := p.row(k, neon.Mem{Base: line})
			a := []neon.V{none}
			if tile == 1 {
				a[0] = k.LoadScalar(neon.Mem{Base: row})
			} else {
				a = k.Vs(tile / 4)
				k.LoadAll(neon.Mem{Base: row}, a)
			}
			for i := range acc {
				for j := range b {
					k.FMLAElement(acc[i][j], b[j], a[i/4], i%4)
				}
			}
			k.Add(stride, row)
			k.Advance(line, p.step())
			k.Decrease(n, 1)
			k.Branch("NE", l("term"))
			for i, r := range acc {
				k.StoreAll(r, neon.Mem{Base: o, Off: i * p.step()})
			}
			k.Advance(o, tile*p.step())
			k.Advance(v, 4*tile)
		})
	})
}

// softmax writes the step of the online softmax, for panels of any width: 8 lanes at a time.
func softmax(file *neon.File) {
	write(file, "softmax", "(s, top, sum, alpha *float32, keys, lanes int)",
		"\tfor j := range lanes {\n\t\tm := top[j]\n\t\tfor i := range keys { m = max(m, s[i][j]) "+
			"}\n\t\talpha[j], top[j] = exp2(top[j]-m), m\n\t\tsum[j] *= alpha[j]\n"+
			"\t\tfor i := range keys { s[i][j] = exp2(s[i][j]-m); sum[j] += s[i][j] }\n\t}\n\ns is [keys, "+
			"lanes], lanes a multiple of 8. exp2 is 0 below 2^-127.", func(k kernel) {
			s, top, sum, alpha := k.Param("s"), k.Param("top"), k.Param("sum"), k.Param("alpha")
			keys, lanes := k.Param("keys"), k.Param("lanes")
			stride, line, n := k.R(), k.R(), k.R()
			k.Move(lanes, stride)
			k.Shift(stride, 2)
			e := k.newExp2()
			pair := func(r neon.R) []neon.V {
				v := k.Vs(2)
				k.LoadAll(at(r, 0), v)
				return v
			}
			begin := func(label string) {
				k.Move(s, line)
				k.Move(keys, n)
				k.Label(label)
			}
			end := func(label string) {
				k.Add(stride, line)
				k.Decrease(n, 1)
				k.Branch("NE", label)
			}
			k.Each(lanes, 8, func() {
				m := pair(top)
				begin("max")
				for j, v := range pair(line) { // NaN would show in the sum in any case
					k.MaxNaNTo(m[j], v)
				}
				end("max")
				before, total := pair(top), pair(sum)
				shrink := make([]neon.V, 2)
				for j := range m {
					shrink[j] = e.of(k.FSub(before[j], m[j]))
					k.MulTo(total[j], shrink[j])
				}
				k.StoreAll(m, at(top, 0))
				k.StoreAll(shrink, at(alpha, 0))
				begin("exp")
				weights := pair(line)
				for j := range weights {
					weights[j] = e.of(k.FSub(weights[j], m[j]))
					k.AddTo(total[j], weights[j])
				}
				k.StoreAll(weights, at(line, 0))
				end("exp")
				k.StoreAll(total, at(sum, 0))
				for _, r := range []neon.R{s, top, sum, alpha} {
					k.Advance(r, 32)
				}
			})
			k.Return()
		})
}

// exp2 has the constants of 2^z in registers.
type exp2 struct {
	kernel
	least, magic neon.V
	c            []neon.V
}

func (k kernel) newExp2() exp2 {
	e := exp2{kernel: k, least: k.K(-127), magic: k.K(3<<22 + 127)}
	for _, c := range []float64{0.00133813025, 0.00966636852, 0.0555038101, 0.24022349, 0.693147181,
		1} {
		e.c = append(e.c, k.K(c))
	}
	return e
}

// of is 2^z for z <= 0, as for amd64.
func (e exp2) of(z neon.V) neon.V {
	z = e.FMax(e.least, z)
	t := e.FAdd(z, e.magic)
	f := e.FSub(z, e.FSub(t, e.magic))
	p := e.c[0]
	for _, c := range e.c[1:] {
		p = e.FMLA(e.Copy(c), p, f)
	}
	return e.FMul(p, e.Left(t, 23))
}
