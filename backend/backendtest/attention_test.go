package backendtest

import (
	"math"

	"unmask/backend"
)

func splitHeads(s *suite) {
	for i, h := range []backend.Heads{{Heads: 1, HeadDim: 2}, {Heads: 3, HeadDim: 16},
		{Heads: 2, HeadDim: 64}, {Heads: 4, HeadDim: 48}, {Heads: 5, HeadDim: 6}} {
		const batch, length = 3, 9
		width := h.Heads * h.HeadDim
		qkv, q := s.random(12, 3*width), s.blank(12, width)
		k, v := s.blank(batch, h.Heads, length, h.HeadDim), s.blank(batch, h.Heads, length, h.HeadDim)
		angle := s.random(length, h.HeadDim/2)
		cos := s.fill(func(i int) float32 { return float32(math.Cos(float64(angle.want()[i]))) }, length,
			h.HeadDim/2)
		sin := s.fill(func(i int) float32 { return float32(math.Sin(float64(angle.want()[i]))) }, length,
			h.HeadDim/2)
		pos := []int32{8, 0, 3, 5, 7, -1, 1, 2, 4, 6}
		dev, ref := &backend.Rotary{Cos: cos.dev, Sin: sin.dev},
			&backend.Rotary{Cos: cos.ref, Sin: sin.ref}
		tolerance := func(int) float64 { return 16 * eps }
		if i%3 == 1 {
			dev, ref = nil, nil
			tolerance = func(int) float64 { return 0 }
		}
		s.dev.SplitHeads(q.dev, k.dev, v.dev, qkv.dev, ragged, pos, h, dev)
		s.ref.SplitHeads(q.ref, k.ref, v.ref, qkv.ref, ragged, pos, h, ref)
		q.near(name("queries of %+v", h), tolerance)
		k.near(name("keys of %+v", h), tolerance)
		v.near(name("values of %+v", h), func(int) float64 { return 0 })
	}
}

// attentionShapes need different tiles: few and many rows, and numbers of keys near powers of two.
var attentionShapes = []struct {
	h      backend.Heads
	length int
	segs   []backend.Segment
}{
	{backend.Heads{Heads: 1, HeadDim: 1, Keys: 1}, 1, []backend.Segment{{Rows: 1}}},
	{backend.Heads{Heads: 2, HeadDim: 64, Keys: 40}, 40, []backend.Segment{{Rows: 40}}},
	{backend.Heads{Heads: 2, HeadDim: 64, Keys: 33}, 50,
		[]backend.Segment{{Seq: 1, Rows: 3}, {Seq: 0, Row: 5, Rows: 17}}},
	{backend.Heads{Heads: 3, HeadDim: 48, Keys: 257}, 257,
		[]backend.Segment{{Seq: 2, Rows: 9}, {Seq: 0, Row: 9, Rows: 1}, {Seq: 2, Row: 11, Rows: 70}}},
	{backend.Heads{Heads: 2, HeadDim: 32, Keys: 129}, 130,
		[]backend.Segment{{Seq: 1, Rows: 5}, {Seq: 0, Row: 8, Rows: 2}}},
	{backend.Heads{Heads: 3, HeadDim: 20, Keys: 19}, 19,
		[]backend.Segment{{Seq: 0, Rows: 19}, {Seq: 1, Row: 19, Rows: 19}}},
	{backend.Heads{Heads: 1, HeadDim: 100, Keys: 70}, 70, []backend.Segment{{Rows: 8}}},
	{backend.Heads{Heads: 2, HeadDim: 64, Keys: 600}, 600, []backend.Segment{{Seq: 1, Rows: 6}}},
	{backend.Heads{Heads: 1, HeadDim: 64, Keys: 130}, 130,
		[]backend.Segment{{Rows: 300}, {Seq: 2, Row: 301, Rows: 1}}},
	{backend.Heads{Heads: 2, HeadDim: 64, Keys: 90, Causal: true}, 90, []backend.Segment{{Rows: 90}}},
	{backend.Heads{Heads: 1, HeadDim: 16, Keys: 300, Causal: true}, 300,
		[]backend.Segment{{Seq: 1, Rows: 7, Pos: 250}, {Seq: 0, Row: 7, Rows: 3, Pos: 0},
			{Seq: 1, Row: 12, Rows: 40, Pos: 120}}},
	{backend.Heads{Heads: 2, HeadDim: 8, Keys: 12, Causal: true}, 40,
		[]backend.Segment{{Rows: 1, Pos: 30}}},
	// Key heads shared by several query heads, and rows that attend to the end of their block.
	{backend.Heads{Heads: 6, KV: 2, HeadDim: 16, Keys: 40}, 41,
		[]backend.Segment{{Seq: 1, Rows: 21}, {Seq: 2, Row: 21, Rows: 1}}},
	{backend.Heads{Heads: 7, KV: 1, HeadDim: 64, Keys: 90, Causal: true, Block: 32}, 100,
		[]backend.Segment{{Rows: 90}}},
	{backend.Heads{Heads: 4, KV: 2, HeadDim: 128, Keys: 70, Causal: true, Block: 4}, 70,
		[]backend.Segment{{Seq: 2, Rows: 33}, {Seq: 1, Row: 33, Rows: 4, Pos: 40}}},
	{backend.Heads{Heads: 2, HeadDim: 12, Keys: 30, Causal: true, Block: 2}, 33,
		[]backend.Segment{{Rows: 5, Pos: 25}, {Seq: 1, Row: 5, Rows: 12, Pos: 3}}},
	{backend.Heads{Heads: 2, KV: 1, HeadDim: 32, Keys: 200, Causal: true, Block: 8}, 200,
		[]backend.Segment{{Seq: 1, Rows: 130, Pos: 61}}},
}

// localShapes are those of a backend.LocalAttention.
var localShapes = []backend.Heads{
	{Heads: 2, HeadDim: 64, Keys: 200, Window: 8}, {Heads: 3, HeadDim: 20, Keys: 199, Window: 64},
	{Heads: 1, HeadDim: 32, Keys: 199, Window: 1}, {Heads: 32, HeadDim: 16, Keys: 512, Window: 64},
}

// local checks attention within windows, of all rows, of some, and of one row alone.
func local(s *suite) {
	if _, ok := s.dev.(backend.LocalAttention); !ok {
		return
	}
	for _, h := range localShapes {
		segs := []backend.Segment{{Seq: 1, Rows: h.Keys}, {Row: h.Keys, Rows: 5, Pos: 100},
			{Seq: 2, Row: h.Keys + 5, Rows: 1, Pos: h.Keys - 1}}
		s.attention(h, h.Keys, segs, s.normal, 1)
		h.BF16 = true
		s.attention(h, h.Keys, segs, func(i int) float32 { return coarse(s.normal(i)) }, 1)
	}
}

func attention(s *suite) {
	for _, c := range attentionShapes {
		for _, sharp := range []float32{1, 8} { // with 8 the softmax is nearly a maximum
			s.attention(c.h, c.length, c.segs, func(i int) float32 { return sharp * s.normal(i) }, sharp)
			h := c.h
			h.BF16 = true
			s.attention(h, c.length, c.segs, func(i int) float32 { return sharp * coarse(s.normal(i)) },
				sharp)
		}
	}
}

// coarse rounds to bfloat16.
func coarse(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ 0xffff) }

func (s *suite) attention(h backend.Heads, length int, segs []backend.Segment,
	query func(i int) float32, sharp float32) {
	width, batch, rows := h.Heads*h.HeadDim, 3, 0
	for _, seg := range segs {
		rows = max(rows, seg.Row+seg.Rows)
	}
	q := s.fill(query, rows+2, width)
	dst := s.blank(rows+2, width)
	// Keys and values outside the attention are NaN, so that none can leak.
	used := func(i int) float32 {
		switch v := s.normal(i); {
		case i/h.HeadDim%length >= h.Keys:
			return nan
		case h.BF16:
			return coarse(v)
		default:
			return v
		}
	}
	k := s.fill(used, batch, h.KVHeads(), length, h.HeadDim)
	v := s.fill(used, batch, h.KVHeads(), length, h.HeadDim)
	s.dev.Attention(dst.dev, q.dev, k.dev, v.dev, segs, h)
	s.ref.Attention(dst.ref, q.ref, k.ref, v.ref, segs, h)
	// Logits have errors of about sharp*sqrt(headDim)*eps, which softmax passes on.
	tolerance := 16 * eps * (4 + float64(sharp)*math.Sqrt(float64(h.HeadDim))) * top(v.want())
	if h.BF16 { // all factors except the weights are already bfloat16
		tolerance += math.Exp2(-8) * top(v.want())
	}
	dst.near(name("%+v %v", h, segs), func(int) float64 { return tolerance })
}

// attentionAlone checks that a row has the same bits alone, in a part of its segment and in a
// batch.
func attentionAlone(s *suite) {
	for _, h := range []backend.Heads{{Heads: 3, HeadDim: 64, Keys: 100},
		{Heads: 2, HeadDim: 48, Keys: 257}, {Heads: 2, HeadDim: 20, Keys: 77, Causal: true},
		{Heads: 4, KV: 2, HeadDim: 32, Keys: 77, Causal: true, Block: 8},
		{Heads: 4, KV: 2, HeadDim: 32, Keys: 77, Causal: true, Block: 8, BF16: true},
		{Heads: 2, HeadDim: 64, Keys: 100, BF16: true},
		{Heads: 1, HeadDim: 20, Keys: 77, Causal: true, BF16: true},
		{Heads: 2, HeadDim: 64, Keys: 200, Window: 5}, {Heads: 2, HeadDim: 64, Keys: 200, Window: 40,
			BF16: true}} {
		if _, ok := s.dev.(backend.LocalAttention); h.Window > 0 && !ok {
			continue
		}
		const batch, rows = 2, 75
		width := h.Heads * h.HeadDim
		q, all := s.random(batch*rows, width), s.blank(batch*rows, width)
		k, v := s.random(batch, h.KVHeads(), h.Keys, h.HeadDim),
			s.random(batch, h.KVHeads(), h.Keys, h.HeadDim)
		s.dev.Attention(all.dev, q.dev, k.dev, v.dev,
			[]backend.Segment{{Seq: 0, Rows: rows}, {Seq: 1, Row: rows, Rows: rows}}, h)
		want := all.got()
		for at, n := 0, 1; at < rows; at, n = at+n, n+5 {
			n = min(n, rows-at)
			part, got := s.random(n, width), s.blank(n, width)
			part.write(q.want()[(rows+at)*width : (rows+at+n)*width])
			s.dev.Attention(got.dev, part.dev, k.dev, v.dev, []backend.Segment{{Seq: 1, Rows: n, Pos: at}},
				h)
			same(s, name("%+v, %d rows from %d", h, n, at), got.got(),
				want[(rows+at)*width:(rows+at+n)*width])
		}
	}
}
