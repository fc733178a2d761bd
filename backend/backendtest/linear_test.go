package backendtest

import (
	"math"

	"github.com/stretchr/testify/require"

	"unmask/backend"
)

// weights is a matrix packed on both devices, with its float32 rows.
type weights struct {
	dev, ref backend.Matrix
	w        []float32
}

func (s *suite) weights(out, in int, as backend.Precision) weights {
	w := make([]float32, out*in)
	for i := range w {
		w[i] = s.normal(i)
	}
	row := func(i int, dst []float32) { copy(dst, w[i*in:(i+1)*in]) }
	m := weights{s.dev.Pack(out, in, as, row), s.ref.Pack(out, in, as, row), w}
	require.Equal(s, []any{out, in, as}, []any{m.dev.Out(), m.dev.In(), m.dev.Precision()})
	require.Positive(s, m.dev.Bytes())
	return m
}

// error bounds the error of the product of row o of w and x: the rounding of a sum and, for Int8, a
// few values that were rounded to the next level.
func (m weights) error(o int, x []float32) float64 {
	w := m.w[o*m.ref.In() : (o+1)*m.ref.In()]
	e := eps * (4 + math.Sqrt(float64(len(w)))) * norm(x) * norm(w)
	if m.ref.Precision() == backend.Int8 {
		e += 3 * top(x) * top(w) / 127
	}
	return e
}

// linearShapes are rows, in, out.
var linearShapes = [][3]int{
	{1, 1, 1}, {1, 16, 48}, {2, 17, 3}, {3, 64, 49}, {7, 5, 95}, {8, 48, 48}, {9, 200, 50},
	{33, 130, 97}, {130, 66, 33}, {5, 1100, 65}, {64, 32, 16}, {0, 8, 8},
}

var precisions = []backend.Precision{backend.F32, backend.BF16, backend.Int8}

func (s *suite) linear(rows, in, out int, as backend.Precision, act backend.Activation, bias,
	add bool) {
	x, w, dst := s.rows(rows, in), s.weights(out, in, as), s.rows(rows, out)
	before := append([]float32(nil), dst.want()...)
	dev, ref := backend.Epilogue{Act: act, Add: add}, backend.Epilogue{Act: act, Add: add}
	if bias {
		b := s.random(out)
		dev.Bias, ref.Bias = b.dev, b.ref
	}
	s.dev.Linear(dst.dev, x.dev, rows, w.dev, dev)
	s.ref.Linear(dst.ref, x.ref, rows, w.ref, ref)
	dst.near(name("%d rows, %d to %d, %v, %+v", rows, in, out, as, ref), func(i int) float64 {
		e := 1.2*w.error(i%out, x.row(i/out)) + 8*eps*(1+math.Abs(float64(dst.want()[i])))
		if add {
			e += 2 * eps * math.Abs(float64(before[i]))
		}
		return e
	})
}

func linear(s *suite) {
	for i, shape := range linearShapes {
		for _, as := range precisions {
			act := backend.Activation(i % 5)
			s.linear(shape[0], shape[1], shape[2], as, act, i%2 == 0, i%3 == 0)
			s.linear(shape[0], shape[1], shape[2], as, backend.Identity, i%3 != 0, i%2 != 0)
		}
	}
}

// linearAlone checks that a row has the same bits alone and among others.
func linearAlone(s *suite) {
	for _, as := range precisions {
		for _, shape := range [][3]int{{35, 70, 99}, {130, 1030, 50}, {300, 24, 48}} {
			rows, in, out := shape[0], shape[1], shape[2]
			x, w, all := s.rows(rows, in), s.weights(out, in, as), s.rows(rows, out)
			e := backend.Epilogue{Act: backend.GELUTanh}
			s.dev.Linear(all.dev, x.dev, rows, w.dev, e)
			want := all.got()
			for at, n := 0, 1; at < rows; at, n = at+n, 2*n {
				n = min(n, rows-at)
				part, got := s.rows(n, in), s.rows(n, out)
				part.write(x.want()[at*in : (at+n)*in])
				s.dev.Linear(got.dev, part.dev, n, w.dev, e)
				same(s, name("%v, %d rows from %d of %v", as, n, at, shape), got.got()[:n*out],
					want[at*out:(at+n)*out])
			}
		}
	}
}
