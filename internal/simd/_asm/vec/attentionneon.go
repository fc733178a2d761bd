package vec

import (
	"fmt"

	"unmask/internal/simd/_asm/neon"
)

// armPanel is a panel of NEON, whose registers hold 4 queries each. In the wide one 24 of 32
// registers accumulate.
type armPanel struct {
	*arm
	name          string
	columns, tile int
}

// step is the bytes of one line of a panel.
func (p armPanel) step() int { return 16 * p.columns }

// zeroed is a row of zeros.
func (p armPanel) zeroed() []neon.V {
	v := p.Vs(p.columns)
	for _, v := range v {
		p.Zero(v)
	}
	return v
}

func (p armPanel) row(m neon.Mem) []neon.V {
	v := p.Vs(p.columns)
	p.LoadAll(m, v)
	return v
}

// scores writes the products of a block of keys with a panel of queries.
func (p armPanel) scores() {
	p.text("scores"+p.name, scoresSignature, scoresDoc(4*p.columns, 4))
	s := p.Param("s")
	key := p.Param("k")
	q := p.Param("q")
	keys := p.Param("keys")
	dim := p.Param("dim")
	next := p.Param("next")
	stride := p.R()
	line := p.R()
	n := p.R()
	p.Move(dim, stride)
	p.Shift(stride, 2)
	rows := []neon.R{key}
	for range p.tile - 1 {
		rows = append(rows, p.R())
	}
	p.tiles(keys, func(tile int, l func(string) string) {
		acc := make([][]neon.V, tile)
		for i := range acc {
			acc[i] = p.zeroed()
			if i > 0 {
				p.Sum(rows[i-1], stride, rows[i])
			}
		}
		p.Move(q, line)
		p.Move(dim, n)
		p.Label(l("term"))
		p.Prefetch(neon.Mem{Base: next})
		p.Advance(next, 4*tile)
		b := p.row(neon.Mem{Base: line})
		for i, row := range acc {
			a := p.LoadScalar(neon.Mem{Base: rows[i], Off: 4, Post: true})
			for j := range b {
				p.FMLAElement(row[j], b[j], a, 0)
			}
		}
		p.Advance(line, p.step())
		p.Again(n, 1, l("term"))
		for i, row := range acc {
			p.StoreAll(row, neon.Mem{Base: s, Off: i * p.step()})
		}
		p.Advance(s, tile*p.step())
		if tile > 1 {
			p.Move(rows[tile-1], key) // which is at the key after the tile
		}
	})
}

// tiles runs body for tiles of n, as many as fit, and then for single ones.
func (p armPanel) tiles(n neon.R, body func(tile int, label func(string) string)) {
	for _, tile := range []int{p.tile, 1} {
		l := func(s string) string { return fmt.Sprintf("%s%d", s, tile) }
		p.Label(l("tile"))
		p.Compare(n, tile)
		p.Branch("LT", l("end"))
		body(tile, l)
		p.Decrease(n, tile)
		p.Branch("", l("tile"))
		p.Label(l("end"))
	}
	p.Return()
}

// values writes the product of a block of values with the weights of a panel of queries.
func (p armPanel) values() {
	p.text("values"+p.name, valuesSignature, valuesDoc(4*p.columns, 4, "v[i][d]*s[i][j]"))
	o := p.Param("o")
	v := p.Param("v")
	s := p.Param("s")
	alpha := p.Param("alpha")
	keys := p.Param("keys")
	dim := p.Param("dim")
	next := p.Param("next")
	stride := p.R()
	row := p.R()
	line := p.R()
	n := p.R()
	p.Move(dim, stride)
	p.Shift(stride, 2)
	p.tiles(dim, func(tile int, l func(string) string) {
		acc := make([][]neon.V, tile)
		shrink := p.row(neon.Mem{Base: alpha})
		for i := range acc {
			acc[i] = p.row(neon.Mem{Base: o, Off: i * p.step()})
			for j, a := range shrink {
				p.MulTo(acc[i][j], a)
			}
		}
		p.Move(v, row)
		p.Move(s, line)
		p.Move(keys, n)
		p.Label(l("term"))
		p.Prefetch(neon.Mem{Base: next})
		p.Advance(next, 4*tile)
		b := p.row(neon.Mem{Base: line})
		a := make([]neon.V, 1)
		if tile == 1 {
			a[0] = p.LoadScalar(neon.Mem{Base: row})
		} else {
			a = p.Vs(tile / 4)
			p.LoadAll(neon.Mem{Base: row}, a)
		}
		for i := range acc {
			for j := range b {
				p.FMLAElement(acc[i][j], b[j], a[i/4], i%4)
			}
		}
		p.Add(stride, row)
		p.Advance(line, p.step())
		p.Again(n, 1, l("term"))
		for i, r := range acc {
			p.StoreAll(r, neon.Mem{Base: o, Off: i * p.step()})
		}
		p.Advance(o, tile*p.step())
		p.Advance(v, 4*tile)
	})
}

// softmax writes the step of the online softmax, for panels of any width: 8 lanes at a time.
func (a *arm) softmax() {
	a.text("softmax", "(s, top, sum, alpha *float32, keys, lanes int)",
		softmaxDoc("lanes", "s is [keys, lanes], lanes a multiple of 8."))
	s := a.Param("s")
	top := a.Param("top")
	sum := a.Param("sum")
	alpha := a.Param("alpha")
	keys := a.Param("keys")
	lanes := a.Param("lanes")
	stride := a.R()
	line := a.R()
	n := a.R()
	a.Move(lanes, stride)
	a.Shift(stride, 2)
	e := kernels{a}.newExp2(exp2Coefficients)
	pair := func(r neon.R) []neon.V {
		v := a.Vs(2)
		a.LoadAll(neon.Mem{Base: r}, v)
		return v
	}
	begin := func(label string) {
		a.Move(s, line)
		a.Move(keys, n)
		a.Label(label)
	}
	end := func(label string) {
		a.Add(stride, line)
		a.Again(n, 1, label)
	}
	a.Each(lanes, 8, func() {
		m := pair(top)
		begin("max")
		for j, v := range pair(line) { // NaN would show in the sum in any case
			a.MaxNaNTo(m[j], v)
		}
		end("max")
		before := pair(top)
		total := pair(sum)
		shrink := make([]neon.V, 2)
		for j := range m {
			shrink[j] = a.v(e.of(a.FSub(before[j], m[j])))
			a.MulTo(total[j], shrink[j])
		}
		a.StoreAll(m, neon.Mem{Base: top})
		a.StoreAll(shrink, neon.Mem{Base: alpha})
		begin("exp")
		weights := pair(line)
		for j := range weights {
			weights[j] = a.v(e.of(a.FSub(weights[j], m[j])))
			a.AddTo(total[j], weights[j])
		}
		a.StoreAll(weights, neon.Mem{Base: line})
		end("exp")
		a.StoreAll(total, neon.Mem{Base: sum})
		for _, r := range []neon.R{s, top, sum, alpha} {
			a.Advance(r, 32)
		}
	})
	a.Return()
}
