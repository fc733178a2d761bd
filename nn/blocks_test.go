package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/plain"
	"unmask/weights"
)

// blocksOf returns a parameter [rows, 64] of a block format of 32 values.
func blocksOf(d weights.DType, rows int) weights.Param {
	_, size := d.Block()
	data := make([]byte, 2*rows*size)
	for i := range data {
		data[i] = byte(37 * i)
		if i%size < 2 {
			data[i] = []byte{0, 0x20}[i%size] // 2^-7
		}
	}
	return weights.Param{Shape: []int{rows, 64},
		Tensor: &weights.Tensor{Name: "w", DType: d, Shape: []int{rows, 64}, Data: data}}
}

// valued hides that a device multiplies block formats.
type valued struct{ backend.Backend }

// Weights stay in block formats if the device multiplies them, also several with one input. Other
// devices, and matrices that include floats, get the values.
func TestMatricesOfBlocks(t *testing.T) {
	a, b, c := blocksOf(weights.Q8_0, 5), blocksOf(weights.Q4_0, 3), blocksOf(weights.Q8_0, 2)
	floats, err := c.Floats()
	require.NoError(t, err)
	var f weights.Param
	f.Shape, f.Tensor = []int{2, 64},
		&weights.Tensor{Name: "f", DType: weights.F32, Shape: []int{2, 64},
			Data: make([]byte, 4*len(floats))}
	run := func(d backend.Backend, params ...*weights.Param) ([]float32, backend.Precision) {
		l := &Loader{Backend: d}
		m := l.Matrices(params...)
		require.NoError(t, l.Err())
		x, y := d.New(2, 64), d.New(2, m.Out())
		values, got := make([]float32, 128), make([]float32, 2*m.Out())
		for i := range values {
			values[i] = float32(i%64 - 31) // levels of a scale 1/4 or 32/127: not exact
		}
		d.Write(x, 0, values)
		d.Linear(y, x, 2, m, backend.Epilogue{})
		d.Read(got, y, 0)
		return got, m.Precision()
	}
	want, as := run(valued{plain.New()}, &a, &b, &c)
	require.Equal(t, backend.F32, as)
	for _, d := range []backend.Backend{plain.New(), cpu.New(cpu.Options{})} {
		got, as := run(d, &a, &b, &c)
		require.Equal(t, backend.Blocks, as)
		require.InDeltaSlice(t, want, got, 30)
		require.Equal(t, got[:10], got[10:])
	}
	_, as = run(plain.New(), &a, &f)
	require.Equal(t, backend.F32, as)

	a.Data[1] = 0x7c // an infinite scale
	l := &Loader{Backend: plain.New()}
	l.Matrix(&a, 5)
	require.EqualError(t, l.Err(), `tensor "w": row 0 has a scale that is not finite`)
}
