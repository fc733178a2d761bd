package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Encoded values are near the originals, within the format's levels; Split gives the same values.
func TestEncode(t *testing.T) {
	for _, q := range append(Types(), Q5_0) {
		const n = 8 * 256
		r := rand.New(rand.NewPCG(1, uint64(q)))
		x, y, data := make([]float32, n), make([]float32, n), make([]byte, q.RowBytes(n))
		for i := range x {
			x[i] = float32(r.NormFloat64()) * (1 + float32(i/512))
		}
		Encode(q, data, x)
		Decode(q, y, data)
		var e, all float64
		for i := range x {
			e, all = e+math.Pow(float64(x[i]-y[i]), 2), all+math.Pow(float64(x[i]), 2)
		}
		// Relative errors that uniform levels over 4 or 5 deviations have, and a little more.
		bound := map[Type]float64{Q8_0: 0.006, Q4_0: 0.11, Q4_K: 0.08, Q5_K: 0.04,
			Q6_K: 0.022, Q5_0: 0.06}[q]
		require.Less(t, math.Sqrt(e/all), bound, "%v", q)
		require.True(t, Finite(q, data))
		p, ok := Parse(q.String())
		require.True(t, ok)
		require.Equal(t, q, p)
	}
}

// The root mean squared error stays within the format's steps for any values, and zeros stay zeros.
func TestErrors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.SampledFrom(append(Types(), Q5_0)).Draw(t, "type")
		size := math.Ldexp(1, rapid.IntRange(-8, 8).Draw(t, "size"))
		peak := rapid.IntRange(1, 5).Draw(t, "peak") // the higher, the fewer values are large
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		shift := rapid.Float64Range(-0.5, 0.5).Draw(t, "shift")
		x, y, data := make([]float32, 256), make([]float32, 256), make([]byte, q.RowBytes(256))
		for i := range x {
			x[i] = float32(size * (shift + math.Pow(2*r.Float64()-1, float64(peak))))
		}
		Encode(q, data, x)
		Decode(q, y, data)
		var e float64
		for i := range x {
			e += math.Pow(float64(x[i]-y[i]), 2) / 256
		}
		step := map[Type]float64{Q8_0: 1.5 / 127, Q4_0: 1.5 / 8, Q4_K: 2.0 / 15, Q5_K: 2.0 / 31,
			Q6_K: 1.5 / 32, Q5_0: 1.5 / 16}[q]
		if math.Sqrt(e) > 0.5*step*size {
			t.Fatalf("%v: error %v, want up to %v", q, math.Sqrt(e), 0.5*step*size)
		}
	})
	for _, q := range Types() {
		x, y, data := make([]float32, 256), make([]float32, 256), make([]byte, q.RowBytes(256))
		Encode(q, data, x)
		Decode(q, y, data)
		require.Equal(t, x, y, "%v of zeros", q)
	}
}

func TestFinite(t *testing.T) {
	for q, l := range layouts {
		q := Type(q)
		data := make([]byte, 3*q.Bytes())
		require.True(t, Finite(q, data))
		at := q.Bytes() + l.scaleAt // of the second block
		data[at+1] = 0x7c
		require.False(t, Finite(q, data), "%v", q)
		if q.Mins() {
			data[at+1], data[at+3] = 0, 0xfe
			require.False(t, Finite(q, data), "%v", q)
		}
	}
	require.Panics(t, func() { Q4_K.RowBytes(128) })
}
