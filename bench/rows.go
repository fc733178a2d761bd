package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"unmask/backend"
	"unmask/internal/quant"
)

// rows returns measurements of the products of one of LLaDA-8B's layers with one row, as in a reply
// from left to right, and with eight. Its weights do not fit into caches.
func rows() []Measurement {
	var out []Measurement
	for _, n := range []int{1, 8} {
		family := "row1/"
		if n > 1 {
			family = fmt.Sprintf("rows%d/", n)
		}
		add := func(name string, as backend.Precision, bytes float64, pack packer) {
			out = append(out, Measurement{family + strings.ToLower(name), func(s *Suite) (work, error) {
				return s.rows(n, as, bytes, pack), nil
			}})
		}
		for _, p := range precisions {
			add(p.String(), p, weightSize[p], func(s *Suite, width, in int) backend.Matrix {
				return s.Device.Pack(width, in, p, func(i int, dst []float32) { fill(dst, i*in, 0.1) })
			})
		}
		for _, t := range quant.Types() {
			add(t.String(), backend.Int8, float64(t.Bytes())/float64(t.Values()),
				func(s *Suite, width, in int) backend.Matrix { return s.packBlocks(t, width, in) })
		}
	}
	return out
}

// packer makes random weights [width, in].
type packer func(s *Suite, width, in int) backend.Matrix

// packBlocks makes random blocks.
func (s *Suite) packBlocks(t quant.Type, width, in int) backend.Matrix {
	chunk, size := randomBlocks(t, rand.New(rand.NewPCG(1, 1))), t.RowBytes(in)
	return s.Device.(backend.BlockPacker).PackBlocks(in, backend.BlockRows{Type: t, Out: width,
		Row: func(i int, dst []byte) {
			for at := i * size % len(chunk); len(dst) > 0; at = 0 {
				dst = dst[copy(dst, chunk[at:]):]
			}
		}})
}

// rows measures the products of n rows with a layer's matrices, whose weights take so many bytes.
func (s *Suite) rows(n int, as backend.Precision, bytes float64, pack packer) work {
	s.drop()
	var all []func()
	for _, size := range [][2]int{{3 * llamaWidth, llamaWidth}, {llamaWidth, llamaWidth},
		{2 * llamaMLP, llamaWidth}, {llamaWidth, llamaMLP}} {
		w, x, dst := pack(s, size[0], size[1]), s.random(1, n, size[1]), s.Device.New(n, size[0])
		all = append(all, func() { s.Device.Linear(dst, x, n, w, backend.Epilogue{}) })
	}
	return work{run: func() error {
		for _, product := range all {
			product()
		}
		return nil
	}, cost: cost{ops: 2 * float64(n) * llamaWeights, as: as, bytes: bytes * llamaWeights}}
}
