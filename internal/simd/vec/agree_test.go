package vec

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"unmask/internal/simd"
)

// hashes are of what the kernels give: all assembly has the same bits, and no machine can compare
// it all.
var hashes = map[string]uint64{
	"add":           0x927d282bb140ea54,
	"affine":        0xf6465b1fbf478e29,
	"attention":     0x8c03f79a41db1e8,
	"columnSquares": 0x847dfc15794235f5,
	"columnSums":    0x427b8a484b92a7f2,
	"exp":           0x6e2f57615da3f652,
	"geluErf":       0xe8873c99f746cc14,
	"geluTanh":      0x41a2d54700360729,
	"layerNorm":     0xbd01fef9f24d9ac1,
	"leaders":       0x5425a4cc90cb60b6,
	"logits":        0x8c22e0619df7951a,
	"maximum":       0xdbcc02cd3cae9412,
	"modulate":      0x51ccbf05bb9945a3,
	"mulAdd":        0xeb3b54d08ce734c1,
	"multiply":      0x18e65c917135315a,
	"relu":          0xa0dc0120a11b8e3e,
	"rmsNorm":       0x8d0b6c675eb923e5,
	"rotate":        0x8cde3d476e9b886c,
	"silu":          0x8264822c7ac1886e,
	"sinSquared":    0x17a208c01bbb664f,
	"sum":           0x7abee49e70182560,
	"sumExp":        0x4faa92826cf1f71b,
	"sumExpDot":     0x1343f577eab6cbcc,
	"sumSquares":    0x510cf94102de7662,
	"weights":       0x977adc515eac16fa,
}

// agreement collects results by kernel.
type agreement map[string][]float32

func (a agreement) keep(kernel string, results ...float32) {
	a[kernel] = append(a[kernel], results...)
}

func (a agreement) check(t *testing.T) {
	for kernel, results := range a {
		h := fnv.New64a()
		for _, v := range results {
			u := math.Float32bits(v)
			if v != v { // NaN is NaN
				u = 0x7fc00000
			}
			h.Write(binary.LittleEndian.AppendUint32(nil, u))
		}
		assert.EqualValues(t, hashes[kernel], h.Sum64(), kernel)
	}
}

// eachAssembly runs a test with the assembly of every instruction set here.
func eachAssembly(t *testing.T, test func(t *testing.T, o Ops)) {
	eachOps(t, func(t *testing.T, o Ops) {
		if o == Ops(simd.Generic) {
			t.Skip("plain Go computes in float64")
		}
		test(t, o)
	})
}

// uniform returns values from -4 to 4 that no compiler rounds differently.
func uniform(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(int32(r.Uint32())) / (1 << 29)
	}
	return x
}

func TestMapsAgree(t *testing.T) {
	eachAssembly(t, func(t *testing.T, o Ops) {
		r := rand.New(rand.NewPCG(4, 5))
		x := uniform(r, 1<<14)
		for i := range 1 << 16 {
			x = append(x, math.Float32frombits(uint32(i)<<16|r.Uint32()&0xffff))
		}
		all := agreement{}
		for name, f := range map[string]func(dst, x []float32){"exp": o.Exp, "geluTanh": o.GELUTanh,
			"geluErf": o.GELUErf, "silu": o.SiLU, "relu": o.ReLU,
			"sinSquared": o.SinSquared} {
			dst := make([]float32, len(x))
			f(dst, x)
			all.keep(name, dst...)
		}
		all.check(t)
	})
}

func TestRowsAgree(t *testing.T) {
	eachAssembly(t, func(t *testing.T, o Ops) {
		all := agreement{}
		for n := 1; n < 200; n += 1 + n/20 {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			x, a, b := uniform(r, n), uniform(r, n), uniform(r, n)
			top := slices.Max(x)
			all.keep("sum", o.Sum(x))
			all.keep("sumSquares", o.SumSquares(x, 0.1))
			all.keep("sumExp", o.SumExp(x, 1.7, top))
			s, d := o.SumExpDot(x, top)
			all.keep("sumExpDot", s, d)
			second, first := o.Leaders(x, top)
			all.keep("leaders", second, float32(first))
			dst, half := make([]float32, n), n/2
			for _, k := range []struct {
				name string
				run  func()
			}{
				{"layerNorm", func() { o.LayerNorm(dst, x, a, b, 1e-5) }},
				{"layerNorm", func() { o.LayerNorm(dst, x, nil, nil, 1e-5) }},
				{"weights", func() { o.Weights(dst, x, 0.7, top) }},
				{"logits", func() { all.keep("logits", o.Logits(dst, a, 1.3)) }},
				{"modulate", func() { o.Modulate(dst, a, b) }},
				{"mulAdd", func() { o.MulAdd(dst, a, x) }},
				{"add", func() { o.Add(dst, b) }},
				{"maximum", func() { o.Maximum(dst, a) }},
				{"affine", func() { o.Affine(dst, x, a, b) }},
				{"rotate", func() { o.Rotate(dst[:2*half], x[:2*half], a[:half], b[:half]) }},
				{"columnSums", func() { o.ColumnSums(dst, uniform(r, 5*n)) }},
				{"columnSquares", func() { o.ColumnSquares(dst, uniform(r, 5*n), a) }},
				{"multiply", func() { o.Multiply(dst, b) }},
				{"rmsNorm", func() { o.RMSNorm(dst, x, a, 1e-6) }},
				{"rmsNorm", func() { o.RMSNorm(dst, dst, nil, 1e-6) }},
			} {
				k.run()
				all.keep(k.name, dst...)
			}
		}
		all.check(t)
	})
}

// TestPanelsAgree: so do the lanes of all panels.
func TestPanelsAgree(t *testing.T) {
	eachAssembly(t, func(t *testing.T, o Ops) {
		for _, p := range o.Panels() {
			const dim, common = 20, 8
			r := rand.New(rand.NewPCG(2, 3))
			k, v, q := uniform(r, 22*dim), uniform(r, 22*dim), uniform(r, dim*common)
			n := p.Lanes()
			spread := make([]float32, dim*n)
			for d := range dim {
				copy(spread[d*n:], q[d*common:(d+1)*common])
			}
			o := make([]float32, dim*n)
			s, top, sum, alpha := make([]float32, 13*n), make([]float32, n), make([]float32, n),
				make([]float32, n)
			for i := range top {
				top[i] = -inf
			}
			at := 0
			for _, b := range []int{13, 8, 1} {
				p.Scores(s, k[at*dim:], spread, b, dim, nil)
				p.Softmax(s, top, sum, alpha, b)
				p.Values(o, v[at*dim:], s, alpha, b, dim, nil)
				at += b
			}
			var got []float32
			for d := range dim {
				got = append(got, o[d*n:d*n+common]...)
			}
			got = append(got, sum[:common]...)
			require.NotContains(t, got, nan)
			agreement{"attention": got}.check(t)
		}
	})
}
