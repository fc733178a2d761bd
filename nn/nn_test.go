package nn_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/nn"
	"unmask/weights"
)

// param returns a bound parameter with the given values.
func param(shape []int, values ...float32) weights.Param {
	t := &weights.Tensor{Name: "p", DType: weights.F32, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return weights.Param{Shape: shape, Tensor: t}
}

func TestGatedLinear(t *testing.T) {
	b := plain.New()
	l := &nn.Loader{Backend: b}
	n := nn.NewLinear(2, 3)
	n.Weight = param([]int{3, 2}, 1, 2, 3, 4, 5, 6)
	n.Bias = param([]int{3}, 10, 20, 30)
	n.LoadGated(l, []float32{1, 0, -2})
	require.NoError(t, l.Err())

	x, y := b.New(1, 2), b.New(1, 3)
	b.Write(x, 0, []float32{1, 1})
	n.Apply(b, y, x, 1, backend.Identity)
	got := make([]float32, 3)
	b.Read(got, y, 0)
	require.Equal(t, []float32{13, 0, -82}, got)

	n.AddTo(b, y, x, 1)
	b.Read(got, y, 0)
	require.Equal(t, []float32{26, 0, -164}, got)
}

func TestModulatedNorm(t *testing.T) {
	b := plain.New()
	l := &nn.Loader{Backend: b}
	n := nn.NewLayerNormNoBias(2, 0)
	n.Weight = param([]int{2}, 2, 2)
	n.LoadModulated(l, []float32{1, 0}, []float32{5, -5})
	require.NoError(t, l.Err())

	x := b.New(1, 2)
	b.Write(x, 0, []float32{3, 7}) // normalised: -1, 1
	n.Apply(b, x, x, 1)
	got := make([]float32, 2)
	b.Read(got, x, 0)
	require.InDeltaSlice(t, []float32{-1*2*2 + 5, 1*2*1 - 5}, got, 1e-6)
}

func TestLoaderKeepsTheFirstError(t *testing.T) {
	l := &nn.Loader{Backend: plain.New()}
	n := nn.NewLinearNoBias(1, 2)
	n.Weight = param([]int{2, 1}, 1, float32(math.NaN()))
	n.Load(l)
	require.ErrorContains(t, l.Err(), `tensor "p": element 1 is NaN`)
}

func TestTableInPieces(t *testing.T) {
	b := plain.New()
	l := &nn.Loader{Backend: b}
	values := make([]float32, 2500)
	for i := range values {
		values[i] = float32(i)
	}
	p := param([]int{2500, 1}, values...)
	table := l.Table(&p)
	require.NoError(t, l.Err())
	got := make([]float32, 2500)
	b.Read(got, table, 0)
	require.Equal(t, values, got)
}

func TestMatrixTakesTheFirstRows(t *testing.T) {
	b := plain.New()
	l := &nn.Loader{Backend: b}
	p := param([]int{3, 2}, 1, 2, 3, 4, 5, 6)
	w := l.Matrix(&p, 2)
	require.Equal(t, []int{2, 2}, []int{w.Out(), w.In()})
}

func TestWorkGrows(t *testing.T) {
	b := plain.New()
	var w nn.Work
	w.Prepare(b, 4, 8, 16)
	x := w.X
	w.Prepare(b, 3, 8, 16)
	require.Same(t, x, w.X)
	w.Prepare(b, 5, 8, 16)
	require.Equal(t, 5, w.X.Shape()[0])
	require.Equal(t, []int{5, 24}, []int(w.QKV.Shape()))
}

// After Keep the tensors have swapped places; the next Prepare restores them.
func TestWorkStartsOver(t *testing.T) {
	b := plain.New()
	var w nn.Work
	w.Prepare(b, 4, 8, 16)
	x, h, q := w.X, w.H, w.Q
	w.KeepRows(b, []int32{2, 3})
	require.NotSame(t, x, w.X)
	w.Prepare(b, 4, 8, 16)
	require.Same(t, x, w.X)
	require.Same(t, h, w.H)
	require.Same(t, q, w.Q)
}
