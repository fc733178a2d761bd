package backendtest

import (
	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/internal/float16"
	"unmask/internal/quant"
)

// blockRows returns rows of any blocks, with scales of about 0.01.
func (s *suite) blockRows(out, in int, t backend.BlockType) backend.BlockRows {
	size := t.RowBytes(in)
	data := make([]byte, out*size)
	for i := range data {
		data[i] = byte(s.rand.Uint32())
	}
	scale := float16.Round(0.01)
	for at := 0; at < len(data); at += t.Bytes() {
		d := at
		if t == quant.Q6_K {
			d += t.Bytes() - 2
		}
		data[d], data[d+1] = byte(scale), byte(scale>>8)
		if t.Mins() {
			data[d+2], data[d+3] = byte(scale), byte(scale>>8)
		}
	}
	return backend.BlockRows{Out: out, Type: t,
		Row: func(i int, dst []byte) { copy(dst, data[i*size:]) }}
}

// blockWeights packs matrices of one input on both devices.
func (s *suite) blockWeights(in int, parts ...backend.BlockRows) weights {
	m := weights{dev: s.dev.(backend.BlockPacker).PackBlocks(in, parts...),
		ref: s.ref.(backend.BlockPacker).PackBlocks(in, parts...)}
	require.Equal(s, []any{m.ref.Out(), in, backend.Blocks},
		[]any{m.dev.Out(), m.dev.In(), m.dev.Precision()})
	require.Positive(s, m.dev.Bytes())
	for _, p := range parts {
		row, blocks := make([]float32, in), make([]byte, p.Type.RowBytes(in))
		for i := range p.Out {
			p.Row(i, blocks)
			quant.Decode(p.Type, row, blocks)
			m.w = append(m.w, row...)
		}
	}
	return m
}

// blocks tests products of weights in block formats, where the device has them.
func blocks(s *suite) {
	if _, ok := s.dev.(backend.BlockPacker); !ok {
		s.Skip("the device takes the weights' values")
	}
	for _, t := range quant.Types() {
		for i, shape := range [][3]int{{1, 256, 5}, {3, 512, 49}, {7, 256, 100}, {33, 768, 97},
			{130, 256, 50}, {1030, 256, 3}} {
			rows, in, out := shape[0], shape[1], shape[2]
			if t.Values() == 32 {
				in -= 96
			}
			w := s.blockWeights(in, s.blockRows(out, in, t))
			s.blockLinear(rows, w, backend.Activation(i%5), i%2 == 0, i%3 == 0)
		}
	}
	parts := []backend.BlockRows{s.blockRows(50, 256, quant.Q4_K), s.blockRows(7, 256, quant.Q4_0),
		s.blockRows(48, 256, quant.Q6_K)}
	parts = append(parts, s.blockRows(20, 256, quant.Q6_K), s.blockRows(1, 256, quant.Q6_K))
	s.blockLinear(9, s.blockWeights(256, parts...), backend.SiLU, true, true)
	s.blockLinear(140, s.blockWeights(256, parts...), backend.Identity, false, false)

	head := s.blockWeights(256, s.blockRows(300, 256, quant.Q6_K))
	x := s.rows(17, 256)
	got, want := newStats(17, 1.5), newStats(17, 1.5)
	s.dev.HeadStats(x.dev, 17, backend.Head{W: head.dev, Outcomes: 299, Scale: 0.05}, got)
	s.ref.HeadStats(x.ref, 17, backend.Head{W: head.ref, Outcomes: 299, Scale: 0.05}, want)
	require.Equal(s, want.Arg, got.Arg)
	require.InDeltaSlice(s, want.LogSum, got.LogSum, 1e-3)
	require.Panics(s, func() {
		s.dev.(backend.BlockPacker).PackBlocks(100,
			s.blockRows(1, 256, quant.Q4_K))
	})
	require.Panics(s, func() { s.dev.(backend.BlockPacker).PackBlocks(256) })
}

func (s *suite) blockLinear(rows int, w weights, act backend.Activation, bias, add bool) {
	in, out := w.ref.In(), w.ref.Out()
	x, dst := s.rows(rows, in), s.rows(rows, out)
	before := append([]float32(nil), dst.want()...)
	dev, ref := backend.Epilogue{Act: act, Add: add}, backend.Epilogue{Act: act, Add: add}
	if bias {
		b := s.random(out)
		dev.Bias, ref.Bias = b.dev, b.ref
	}
	s.dev.Linear(dst.dev, x.dev, rows, w.dev, dev)
	s.ref.Linear(dst.ref, x.ref, rows, w.ref, ref)
	dst.near(name("%d rows, %d to %d, %+v", rows, in, out, ref), func(i int) float64 {
		e := 8 * eps * (norm(x.row(i/out))*norm(w.w[i%out*in:][:in]) + 1)
		if add {
			e += 2 * eps * max(1, float64(before[i]), -float64(before[i]))
		}
		return e
	})
	if rows < 2 || add {
		return
	}
	all, alone, one := dst.got(), s.rows(1, out), s.rows(1, in)
	one.write(x.row(rows - 1))
	s.dev.Linear(alone.dev, one.dev, 1, w.dev, dev)
	same(s, name("the last of %d rows alone", rows), alone.got()[:out], all[(rows-1)*out:][:out])
}
