package weights

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloat32sExactValues(t *testing.T) {
	half := func(v ...uint16) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, x)
		}
		return b
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		dtype DType
		data  []byte
		want  []float32
	}{
		{F32, f32(1.5, -0.25, inf, 1e-45), []float32{1.5, -0.25, inf, 1e-45}},
		{BF16, half(0x3fc0, 0xbe80, 0xff80, 0x0001),
			[]float32{1.5, -0.25, -inf, math.Float32frombits(0x10000)}},
		{F16, half(0x3e00, 0xb400, 0x7c00, 0xfc00), []float32{1.5, -0.25, inf, -inf}},
		{F16, half(0x0001, 0x83ff, 0x0400, 0x7bff), []float32{0x1p-24, -1023 * 0x1p-24, 0x1p-14, 65504}},
	} {
		w := Tensor{Name: "w", DType: c.dtype, Shape: []int{2, 2}, Data: c.data}
		got := make([]float32, 4)
		require.NoError(t, w.Float32s(got))
		require.Equal(t, c.want, got, c.dtype)
		own, err := w.Floats()
		require.NoError(t, err)
		require.Equal(t, c.want, own)
		part := make([]float32, 2)
		require.NoError(t, w.ReadFloat32s(part, 1))
		require.Equal(t, c.want[1:3], part)
	}
	w := Tensor{Name: "w", DType: F64,
		Data: binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1))}
	got := make([]float32, 1)
	require.NoError(t, w.Float32s(got))
	require.Equal(t, float32(0.1), got[0])
}

func TestInt64s(t *testing.T) {
	data := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		dtype DType
		n     int
		want  []int64
	}{
		{I64, 2, []int64{math.MaxInt64 - 1, 1}},
		{U64, 2, []int64{math.MaxInt64 - 1, 1}},
		{I32, 3, []int64{-2, math.MaxInt32, 1}},
		{U32, 3, []int64{1<<32 - 2, math.MaxInt32, 1}},
		{I16, 2, []int64{-2, -1}},
		{U16, 2, []int64{1<<16 - 2, 1<<16 - 1}},
		{I8, 2, []int64{-2, -1}},
		{U8, 2, []int64{254, 255}},
		{BOOL, 2, []int64{254, 255}},
	} {
		w := Tensor{Name: "w", DType: c.dtype, Shape: []int{c.n}, Data: data[:c.n*c.dtype.Bits()/8]}
		if c.dtype == I32 || c.dtype == U32 {
			w.Data = append(append([]byte{}, data[:4]...), 0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0)
		}
		got, err := w.Int64s()
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.dtype)
	}
	big := Tensor{Name: "w", DType: U64, Shape: []int{1}, Data: []byte{0, 0, 0, 0, 0, 0, 0, 0x80}}
	_, err := big.Int64s()
	require.EqualError(t, err, `tensor "w": element 0 is beyond int64`)
	_, err = (&Tensor{Name: "w", DType: F32, Shape: []int{1}, Data: make([]byte, 4)}).Int64s()
	require.ErrorContains(t, err, "dtype F32 is not an integer")
}

func TestTensorRanges(t *testing.T) {
	w := Tensor{Name: "w", DType: F32, Shape: []int{3}, Data: f32(1, 2, 3)}
	require.EqualError(t, w.Float32s(make([]float32, 2)), `tensor "w": 2 elements wanted, it has 3`)
	require.ErrorContains(t, w.ReadFloat32s(make([]float32, 2), 2), "elements 2..4 wanted, it has 3")
	require.ErrorContains(t, w.ReadFloat32s(nil, -1), "elements -1..-1 wanted")
	require.ErrorContains(t, w.ReadBytes(make([]byte, 1), 12), "bytes 12..13 wanted, it has 12")
	_, err := (&Tensor{Name: "w", DType: "Q3_X", Shape: []int{1 << 30}}).Floats()
	require.ErrorContains(t, err, "dtype is Q3_X, want F32")
	_, err = (&Tensor{Name: "w", DType: F32, Shape: []int{1 << 30}}).Floats()
	require.ErrorContains(t, err, "0 bytes do not hold shape")
	w.Shape = []int{4}
	require.ErrorContains(t, w.Float32s(make([]float32, 4)), "12 bytes do not hold shape [4] of F32")
}

func BenchmarkFloat32s(b *testing.B) {
	for _, dtype := range []DType{F32, BF16, F16, F64} {
		b.Run(string(dtype), func(b *testing.B) {
			const n = 1 << 20
			w := Tensor{Name: "w", DType: dtype, Shape: []int{n}, Data: make([]byte, n*dtype.Bits()/8)}
			dst := make([]float32, n)
			b.SetBytes(4 * n)
			for b.Loop() {
				if err := w.Float32s(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
