package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/internal/simd"
)

// each runs f on a backend of every instruction set that this machine has.
func each(t *testing.T, threads []int, f func(t *testing.T, b *Backend)) {
	for _, level := range simd.Available() {
		for _, n := range threads {
			t.Run(fmt.Sprintf("%v/%d", level, n),
				func(t *testing.T) { f(t, New(Options{Threads: n, ISA: level.String()})) })
		}
	}
}

func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func rows(w []float32, in int) backend.RowFunc {
	return func(i int, dst []float32) { copy(dst, w[i*in:]) }
}

// same compares bit for bit.
func same(t *testing.T, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, v := range want {
		require.Equal(t, math.Float32bits(v), math.Float32bits(got[i]), "value %d is %v, not %v", i,
			got[i], v)
	}
}

var precisions = []backend.Precision{backend.F32, backend.BF16, backend.Int8}

// orders are shapes for every order of work: few rows, resident blocks of rows, and more rows than
// are streamed at a time.
var orders = []struct{ rows, in, out int }{{1, 40, 70}, {5, 33, 130}, {150, 24, 50},
	{streamRows + 70, 3, 33}}

func TestLinearAgreesWithReference(t *testing.T) {
	ref := plain.New()
	each(t, []int{2}, func(t *testing.T, b *Backend) {
		for _, as := range precisions {
			for n, s := range orders {
				r := rand.New(rand.NewPCG(1, uint64(n)))
				w, x, y := normals(r, s.out*s.in), normals(r, s.rows*s.in), normals(r, s.rows*s.out)
				dst, want := b.New(s.rows, s.out), ref.New(s.rows, s.out)
				in, refIn := b.New(s.rows, s.in), ref.New(s.rows, s.in)
				b.Write(in, 0, x)
				ref.Write(refIn, 0, x)
				b.Write(dst, 0, y)
				ref.Write(want, 0, y)
				bias := b.New(s.out)
				b.Write(bias, 0, y[:s.out])
				e := backend.Epilogue{Bias: bias, Act: backend.GELUErf, Add: n%2 == 0}
				b.Linear(dst, in, s.rows, b.Pack(s.out, s.in, as, rows(w, s.in)), e)
				ref.Linear(want, refIn, s.rows, ref.Pack(s.out, s.in, as, rows(w, s.in)), e)
				for i, v := range want.Float32s() {
					require.InDelta(t, v, dst.Float32s()[i],
						2e-5*(1+math.Sqrt(float64(s.in)))+0.15*float64(as/backend.Int8), "%v %+v at %d", as, s, i)
				}
			}
		}
	})
}

// A row's bits are the same for any number of rows, threads, order of work and, in float32, any
// instruction set.
func TestLinearBits(t *testing.T) {
	const count, in, out = 140, 67, 83
	r := rand.New(rand.NewPCG(3, 4))
	w, x := normals(r, out*in), normals(r, count*in)
	want := map[backend.Precision][]float32{}
	each(t, []int{1, 2, 3, 16}, func(t *testing.T, b *Backend) {
		for _, as := range precisions {
			m, src := b.Pack(out, in, as, rows(w, in)), b.New(count, in)
			b.Write(src, 0, x)
			all := b.New(count, out)
			e := backend.Epilogue{Act: backend.ReLU}
			b.Linear(all, src, count, m, e)
			for _, n := range []int{1, 2, 7, 32} {
				for at := 0; at+n <= count; at += 31 {
					part, dst := b.New(n, in), b.New(n, out)
					b.Write(part, 0, x[at*in:(at+n)*in])
					b.Linear(dst, part, n, m, e)
					same(t, all.Float32s()[at*out:(at+n)*out], dst.Float32s())
				}
			}
			if first, ok := want[as]; !ok {
				want[as] = all.Float32s()
			} else if as == backend.F32 {
				same(t, first, all.Float32s())
			}
		}
	})
}

func TestLinearAllocatesNothing(t *testing.T) {
	b := New(Options{Threads: 2})
	for _, as := range precisions {
		for _, s := range orders {
			m, x, dst := b.Pack(s.out, s.in, as, func(int, []float32) {}), b.New(s.rows, s.in),
				b.New(s.rows, s.out)
			e := backend.Epilogue{Bias: b.New(s.out), Act: backend.GELUTanh, Add: true}
			require.Zero(t, testing.AllocsPerRun(3, func() { b.Linear(dst, x, s.rows, m, e) }), "%v %+v", as,
				s)
		}
	}
}

func TestPackMemory(t *testing.T) {
	b := New(Options{})
	for as, bytes := range map[backend.Precision]int{backend.F32: 4, backend.BF16: 2,
		backend.Int8: 1} {
		m := b.Pack(480, 1024, as, func(int, []float32) {})
		require.InDelta(t, bytes*480*1024, m.Bytes(), 8*480)
	}
}

func TestNewTensorsAreAligned(t *testing.T) {
	b := New(Options{})
	for _, n := range []int{1, 3, 1000, 3 << 20} {
		x := b.New(n)
		require.Zero(t, x.Uintptr()%lineBytes)
		require.Equal(t, n, x.DataSize())
		require.Zero(t, x.Float32s()[n-1])
	}
}

func TestUnknownInstructionSet(t *testing.T) {
	require.ErrorContains(t, CheckISA("mmx"), "mmx")
	require.NoError(t, CheckISA("generic"))
	require.Panics(t, func() { New(Options{ISA: "mmx"}) })
}

// BenchmarkLinear reports Gop/s. The ceiling is measured on a panel that stays in the cache.
func BenchmarkLinear(b *testing.B) {
	for _, as := range precisions {
		dev := New(Options{})
		for _, s := range []struct{ rows, in, out int }{
			{1024, 768, 2304}, {1024, 768, 768}, {1024, 768, 3072}, {1024, 3072, 768}, {32, 768, 768},
			{32, 768, 3072}, {32, 3072, 768}, {257, 768, 3072}, {1024, 768, 50258},
		} {
			b.Run(fmt.Sprintf("%v/%dx%dx%d", as, s.rows, s.in, s.out), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				w := normals(r, s.in)
				m := dev.Pack(s.out, s.in, as, func(_ int, dst []float32) { copy(dst, w) })
				x, dst := dev.New(s.rows, s.in), dev.New(s.rows, s.out)
				dev.Write(x, 0, normals(r, s.rows*s.in))
				for b.Loop() {
					dev.Linear(dst, x, s.rows, m, backend.Epilogue{})
				}
				b.ReportMetric(2*float64(s.rows*s.in*s.out)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
			})
		}
	}
}
