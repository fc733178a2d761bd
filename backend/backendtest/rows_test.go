package backendtest

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

var widths = []int{1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 257, 768}

func layerNorm(s *suite) {
	for i, width := range widths {
		rows := 1 + i%5
		x, dst := s.rows(rows, width), s.rows(rows, width)
		scale, shift := s.random(width), s.random(width)
		dev := backend.Norm{Scale: scale.dev, Shift: shift.dev, Eps: 1e-5}
		ref := backend.Norm{Scale: scale.ref, Shift: shift.ref, Eps: 1e-5}
		if i%3 == 1 {
			dev.Scale, ref.Scale = nil, nil
		}
		if i%3 == 2 {
			dev.Shift, ref.Shift = nil, nil
		}
		tolerance := func(int) float64 {
			return 16 * eps * math.Sqrt(float64(width)) * (1 + top(scale.want()))
		}
		s.dev.LayerNorm(dst.dev, x.dev, rows, dev)
		s.ref.LayerNorm(dst.ref, x.ref, rows, ref)
		dst.near(name("%d wide", width), tolerance)
		s.dev.LayerNorm(x.dev, x.dev, rows, dev)
		same(s, name("%d wide, in place", width), x.got(), dst.got())
	}
	// A large mean must not hide a small variance.
	x := s.fill(func(i int) float32 { return 1000 + s.normal(i) }, 3, 256)
	s.dev.LayerNorm(x.dev, x.dev, 3, backend.Norm{Eps: 1e-6})
	s.ref.LayerNorm(x.ref, x.ref, 3, backend.Norm{Eps: 1e-6})
	x.near("mean 1000", func(int) float64 { return 2e-3 })
	zero := s.fill(func(int) float32 { return 3 }, 1, 40)
	s.dev.LayerNorm(zero.dev, zero.dev, 1, backend.Norm{Eps: 1e-5})
	s.ref.LayerNorm(zero.ref, zero.ref, 1, backend.Norm{Eps: 1e-5})
	zero.near("no variance", func(int) float64 { return 0 })
}

// activate requires 4 units in the last place over the whole range of float32.
func activate(s *suite) {
	for f := backend.Identity; f <= backend.ReLU; f++ {
		for i, width := range widths {
			x := s.rows(1+i%3, width)
			s.dev.Activate(x.dev, 1+i%3, f)
			s.ref.Activate(x.ref, 1+i%3, f)
			x.near(name("activation %d", f), ulps(x.want(), 4))
		}
		x := s.fill(func(i int) float32 { return math.Float32frombits(uint32(i) << 16) }, 256, 256)
		s.dev.Activate(x.dev, 256, f)
		s.ref.Activate(x.ref, 256, f)
		x.near(name("activation %d over all magnitudes", f), ulps(x.want(), 4))
	}
}

// ulps returns n units in the last place.
func ulps(want []float32, n float64) func(int) float64 {
	return func(i int) float64 {
		w := math.Abs(float64(want[i]))
		return n * math.Ldexp(1, max(math.Ilogb(max(w, math.SmallestNonzeroFloat64))-23, -149))
	}
}

// ragged are segments of 3 sequences over 12 rows; row 5 and rows from 10 on belong to none.
var ragged = []backend.Segment{{Seq: 2, Row: 0, Rows: 4}, {Seq: 0, Row: 4, Rows: 1, Pos: 3},
	{Seq: 1, Row: 6, Rows: 4, Pos: 1}}

func modulate(s *suite) {
	for _, width := range widths {
		x, scale, shift := s.random(12, width), s.random(3, width), s.random(3, width)
		s.dev.Modulate(x.dev, scale.dev, shift.dev, ragged)
		s.ref.Modulate(x.ref, scale.ref, shift.ref, ragged)
		x.near(name("%d wide", width), func(int) float64 { return 64 * eps })
	}
}

func gateAdd(s *suite) {
	for _, width := range widths {
		x, dst, gate := s.random(12, width), s.random(12, width), s.random(3, width)
		s.dev.GateAdd(dst.dev, x.dev, gate.dev, ragged)
		s.ref.GateAdd(dst.ref, x.ref, gate.ref, ragged)
		dst.near(name("%d wide", width), func(int) float64 { return 64 * eps })
	}
}

func rowCopies(s *suite) {
	at := []int32{4, 0, 0, 8, 3}
	distinct := []int32{4, 0, 7, 8, 3}
	for _, width := range widths {
		src := s.random(9, width)
		for kernel, call := range map[string]func(b backend.Backend, dst, src *tensor.Dense){
			"Gather":  func(b backend.Backend, dst, src *tensor.Dense) { b.Gather(dst, src, at) },
			"AddRows": func(b backend.Backend, dst, src *tensor.Dense) { b.AddRows(dst, src, at) },
			"Scatter": func(b backend.Backend, dst, src *tensor.Dense) { b.Scatter(dst, src, distinct) },
		} {
			dst := s.random(9, width)
			call(s.dev, dst.dev, src.dev)
			call(s.ref, dst.ref, src.ref)
			same(s, name("%s, %d wide", kernel, width), dst.got(), dst.want())
		}
	}
}

func groupNorm(s *suite) {
	for i, c := range []struct{ batch, pixels, channels, groups int }{
		{1, 1, 4, 2}, {2, 9, 6, 3}, {1, 64, 32, 32}, {3, 35, 64, 32}, {1, 100, 5, 1}, {2, 256, 128, 32},
		{1, 7, 96, 4},
	} {
		x := s.fill(func(i int) float32 { return 3 + s.normal(i) }, c.batch, c.pixels, c.channels)
		scale, shift := s.blank(c.batch+1, c.channels), s.blank(c.batch+1, c.channels)
		a, b := s.random(c.channels), s.random(c.channels)
		dev, ref := backend.Norm{Scale: a.dev, Shift: b.dev, Eps: 1e-6},
			backend.Norm{Scale: a.ref, Shift: b.ref, Eps: 1e-6}
		if i%3 == 1 {
			dev.Scale, dev.Shift, ref.Scale, ref.Shift = nil, nil, nil, nil
		}
		s.dev.GroupNorm(scale.dev, shift.dev, x.dev, c.batch, c.pixels, c.channels, c.groups, dev)
		s.ref.GroupNorm(scale.ref, shift.ref, x.ref, c.batch, c.pixels, c.channels, c.groups, ref)
		n := math.Sqrt(float64(c.pixels * c.channels / c.groups))
		tolerance := func(t twin) func(int) float64 {
			return func(i int) float64 { return 8 * eps * (4 + n) * (1 + math.Abs(float64(t.want()[i]))) }
		}
		scale.near(name("scale of %+v", c), tolerance(scale))
		shift.near(name("shift of %+v", c), tolerance(shift))
	}
}
