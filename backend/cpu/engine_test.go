package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// matrices returns the same random matrix for two engines, stored transposed or not.
func matrices(r *rand.Rand, b *Backend, rows, columns int, transposed bool) (on,
	off *tensor.Dense) {
	shape := []int{rows, columns}
	if transposed {
		shape = []int{columns, rows}
	}
	x := normals(r, rows*columns)
	on = tensor.New(tensor.WithShape(shape...), tensor.WithBacking(append([]float32(nil), x...)),
		tensor.WithEngine(b))
	off = tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
	if transposed {
		if on.T() != nil || off.T() != nil {
			panic("no transpose")
		}
	}
	return on, off
}

func TestMatMul(t *testing.T) {
	each(t, []int{2}, func(t *testing.T, b *Backend) {
		for _, s := range [][3]int{{1, 1, 1}, {2, 3, 4}, {17, 33, 49}, {150, 20, 60}, {1, 30, 5},
			{30, 5, 1}} {
			for flags := range 4 {
				r := rand.New(rand.NewPCG(1, uint64(flags)))
				x, refX := matrices(r, b, s[0], s[1], flags&1 != 0)
				y, refY := matrices(r, b, s[1], s[2], flags&2 != 0)
				got, err := tensor.MatMul(x, y)
				require.NoError(t, err)
				want, err := tensor.MatMul(refX, refY)
				require.NoError(t, err)
				require.Equal(t, want.Shape(), got.Shape())
				require.InDeltaSlice(t, want.Data(), got.Data(), 1e-4)
				require.Same(t, b, got.Engine())
			}
		}
	})
}

// What the kernels do not support runs on gorgonia's engine.
func TestMatMulOfOthers(t *testing.T) {
	b := New(Options{})
	x := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float64{1, 2, 3, 4}),
		tensor.WithEngine(b))
	y, err := tensor.MatMul(x, x)
	require.NoError(t, err)
	require.Equal(t, []float64{7, 10, 15, 22}, y.Data())

	whole, _ := matrices(rand.New(rand.NewPCG(1, 1)), b, 4, 6, false)
	part, err := whole.Slice(nil, tensor.S(1, 3))
	require.NoError(t, err)
	_, ok := viewMatrix(part.(*tensor.Dense))
	require.False(t, ok, "columns of a matrix are not contiguous")
}

func BenchmarkMatMul(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	dev := New(Options{})
	x, refX := matrices(r, dev, 1024, 768, false)
	y, refY := matrices(r, dev, 768, 3072, false)
	for name, f := range map[string][2]*tensor.Dense{"kernels": {x, y}, "default": {refX, refY}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := tensor.MatMul(f[0], f[1]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(2*1024*768*3072*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
		})
	}
}
