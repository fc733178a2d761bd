package backendtest

import (
	"math"

	"unmask/backend"
)

// The kernels of Llama's descendants.

func rmsNorm(s *suite) {
	for i, width := range append([]int{2048, 3001}, widths...) {
		rows := 1 + i%5
		x, dst := s.rows(rows, width), s.rows(rows, width)
		scale := s.random(width)
		dev := backend.Norm{Scale: scale.dev, Eps: 1e-6}
		ref := backend.Norm{Scale: scale.ref, Eps: 1e-6}
		if i%3 == 1 {
			dev.Scale, ref.Scale = nil, nil
		}
		s.dev.RMSNorm(dst.dev, x.dev, rows, dev)
		s.ref.RMSNorm(dst.ref, x.ref, rows, ref)
		dst.near(name("%d wide", width), func(i int) float64 {
			return 8 * eps * (4 + math.Sqrt(float64(width))) * math.Abs(float64(dst.want()[i]))
		})
		s.dev.RMSNorm(x.dev, x.dev, rows, dev)
		same(s, name("%d wide, in place", width), x.got(), dst.got())
	}
	zero := s.fill(func(int) float32 { return 0 }, 1, 40)
	s.dev.RMSNorm(zero.dev, zero.dev, 1, backend.Norm{Eps: 1e-6})
	s.ref.RMSNorm(zero.ref, zero.ref, 1, backend.Norm{Eps: 1e-6})
	zero.near("zeros", func(int) float64 { return 0 })
}

func normHeads(s *suite) {
	for _, h := range []backend.Heads{{Heads: 1, HeadDim: 2}, {Heads: 6, KV: 2, HeadDim: 16},
		{Heads: 4, KV: 4, HeadDim: 20}, {Heads: 3, KV: 1, HeadDim: 128}} {
		x := s.rows(5, (h.Heads+2*h.KVHeads())*h.HeadDim)
		q, k := s.random(h.HeadDim), s.random(h.HeadDim)
		s.dev.NormHeads(x.dev, 5, h, backend.Norm{Scale: q.dev, Eps: 1e-6},
			backend.Norm{Scale: k.dev, Eps: 1e-3})
		s.ref.NormHeads(x.ref, 5, h, backend.Norm{Scale: q.ref, Eps: 1e-6},
			backend.Norm{Scale: k.ref, Eps: 1e-3})
		x.near(name("%+v", h), relative(x.want(), 8*(4+math.Sqrt(float64(h.HeadDim)))))
	}
}

// splitGrouped tests key heads shared by several query heads, and heads with only some numbers
// rotated.
func splitGrouped(s *suite) {
	for _, c := range []struct {
		h    backend.Heads
		half int
	}{
		{backend.Heads{Heads: 6, KV: 2, HeadDim: 16}, 8},
		{backend.Heads{Heads: 4, KV: 1, HeadDim: 128}, 32},
		{backend.Heads{Heads: 2, HeadDim: 12}, 3}, {backend.Heads{Heads: 3, KV: 1, HeadDim: 7}, 0},
	} {
		const batch, length = 3, 9
		h, kv := c.h, c.h.KVHeads()
		qkv, q := s.random(12, (h.Heads+2*kv)*h.HeadDim), s.blank(12, h.Heads*h.HeadDim)
		k, v := s.blank(batch, kv, length, h.HeadDim), s.blank(batch, kv, length, h.HeadDim)
		pos := []int32{8, 0, 3, 5, 7, -1, 1, 2, 4, 6}
		var dev, ref *backend.Rotary
		if c.half > 0 {
			cos := s.fill(func(i int) float32 { return float32(math.Cos(float64(i))) }, length, c.half)
			sin := s.fill(func(i int) float32 { return float32(math.Sin(float64(i))) }, length, c.half)
			dev, ref = &backend.Rotary{Cos: cos.dev, Sin: sin.dev},
				&backend.Rotary{Cos: cos.ref, Sin: sin.ref}
		}
		s.dev.SplitHeads(q.dev, k.dev, v.dev, qkv.dev, ragged, pos, h, dev)
		s.ref.SplitHeads(q.ref, k.ref, v.ref, qkv.ref, ragged, pos, h, ref)
		q.near(name("queries of %+v", h), func(int) float64 { return 16 * eps })
		k.near(name("keys of %+v", h), func(int) float64 { return 16 * eps })
		v.near(name("values of %+v", h), func(int) float64 { return 0 })
	}
}

// gated tests a product times other numbers, which may be in the product's place.
func gated(s *suite) {
	for i, shape := range linearShapes {
		for _, as := range precisions {
			rows, in, out := shape[0], shape[1], shape[2]
			act, add := []backend.Activation{backend.SiLU, backend.GELUTanh, backend.Identity}[i%3], i%4 == 1
			x, w, dst, times := s.rows(rows, in), s.weights(out, in, as), s.rows(rows, out),
				s.rows(rows, out)
			if i%2 == 0 && !add {
				times = dst
			}
			before, factor := append([]float32(nil), dst.want()...), append([]float32(nil), times.want()...)
			dev, ref := backend.Epilogue{Act: act, Add: add, Times: times.dev},
				backend.Epilogue{Act: act, Add: add, Times: times.ref}
			if i%3 == 0 {
				b := s.random(out)
				dev.Bias, ref.Bias = b.dev, b.ref
			}
			s.dev.Linear(dst.dev, x.dev, rows, w.dev, dev)
			s.ref.Linear(dst.ref, x.ref, rows, w.ref, ref)
			dst.near(name("%d rows, %d to %d, %v, %+v", rows, in, out, as, ref), func(i int) float64 {
				e := 1.2*w.error(i%out, x.row(i/out))*math.Abs(float64(factor[i])) +
					8*eps*(1+math.Abs(float64(dst.want()[i])))
				return e + 2*eps*(math.Abs(float64(before[i]))+math.Abs(float64(factor[i])))
			})
		}
	}
}

// gatedAlone checks that a row of a gated product has the same bits alone and among others.
func gatedAlone(s *suite) {
	for _, as := range precisions {
		const rows, in, out = 70, 96, 50
		x, w, times, all := s.rows(rows, in), s.weights(out, in, as), s.rows(rows, out), s.rows(rows, out)
		s.dev.Linear(all.dev, x.dev, rows, w.dev, backend.Epilogue{Act: backend.SiLU, Times: times.dev})
		want := all.got()
		for at, n := 0, 1; at < rows; at, n = at+n, 2*n {
			n = min(n, rows-at)
			part, got := s.rows(n, in), s.rows(n, out)
			part.write(x.want()[at*in : (at+n)*in])
			got.write(times.want()[at*out : (at+n)*out])
			s.dev.Linear(got.dev, part.dev, n, w.dev, backend.Epilogue{Act: backend.SiLU, Times: got.dev})
			same(s, name("%v, %d rows from %d", as, n, at), got.got()[:n*out], want[at*out:(at+n)*out])
		}
	}
}

// addScaled tests that scaled rows are added with one rounding each.
func addScaled(s *suite) {
	at, scale := []int32{4, 0, 0, 8, 3}, []float32{1, -2, 0, 0.3, 4}
	for _, width := range append([]int{300, 1024}, widths...) {
		dst, src := s.random(9, width), s.random(9, width)
		s.dev.AddScaled(dst.dev, src.dev, at, scale)
		s.ref.AddScaled(dst.ref, src.ref, at, scale)
		dst.near(name("%d wide", width), func(i int) float64 {
			return 2 * eps * (1 + 4*math.Abs(float64(src.row(int(at[min(i/width, 4)]))[i%width])))
		})
	}
}
