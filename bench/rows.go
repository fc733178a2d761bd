package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"unmask/backend"
	"unmask/internal/quant"
)

// rowMeasurements returns measurements of the products of one of LLaDA-8B's layers with one row, as
// in a reply from left to right, and with eight. Its weights do not fit into caches.
func rowMeasurements() []Measurement {
	var out []Measurement
	for _, n := range []int{1, 8} {
		family := "row1/"
		if n > 1 {
			family = fmt.Sprintf("rows%d/", n)
		}
		add := func(name string, precision backend.Precision, bytes float64, pack packFunc) {
			out = append(out, Measurement{family + strings.ToLower(name), func(s *Suite) (work, error) {
				return s.measureRows(n, precision, bytes, pack), nil
			}})
		}
		for _, p := range precisions {
			add(p.String(), p, weightSize[p], func(s *Suite, width, in int) backend.Matrix {
				return s.Device.Pack(width, in, p, func(i int, dst []float32) { fillNoise(dst, i*in, 0.1) })
			})
		}
		for _, t := range quant.Types() {
			add(t.String(), backend.Int8, float64(t.Bytes())/float64(t.Values()),
				func(s *Suite, width, in int) backend.Matrix { return s.packBlocks(t, width, in) })
		}
	}
	return out
}

// packFunc makes random weights [width, in].
type packFunc func(s *Suite, width, in int) backend.Matrix

// packBlocks makes random blocks.
func (s *Suite) packBlocks(t quant.Type, width, in int) backend.Matrix {
	chunk := randomBlocks(t, rand.New(rand.NewPCG(1, 1)))
	size := t.RowBytes(in)
	row := func(i int, dst []byte) {
		for first := i * size % len(chunk); len(dst) > 0; first = 0 {
			dst = dst[copy(dst, chunk[first:]):]
		}
	}
	return s.Device.(backend.BlockPacker).PackBlocks(in,
		backend.BlockRows{Type: t, Out: width, Row: row})
}

// measureRows measures the products of n rows with a layer's matrices, whose weights take so many
// bytes.
func (s *Suite) measureRows(n int, precision backend.Precision, bytes float64, pack packFunc) work {
	s.dropNetwork()
	shapes := []struct{ out, in int }{
		{3 * llamaWidth, llamaWidth},
		{llamaWidth, llamaWidth},
		{2 * llamaMLP, llamaWidth},
		{llamaWidth, llamaMLP},
	}
	var products []func()
	for _, shape := range shapes {
		w := pack(s, shape.out, shape.in)
		x := s.randomTensor(1, n, shape.in)
		dst := s.Device.New(n, shape.out)
		products = append(products, func() { s.Device.Linear(dst, x, n, w, backend.Epilogue{}) })
	}
	return work{run: func() error {
		for _, product := range products {
			product()
		}
		return nil
	}, cost: cost{ops: 2 * float64(n) * llamaWeights, precision: precision,
		bytes: bytes * llamaWeights}}
}
