package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/plain"
)

var windows = []backend.ConvShape{
	{Batch: 2, Height: 5, Width: 7, In: 3, Out: 9, KH: 3, KW: 3, PadH: 1, PadW: 1},
	{Batch: 1, Height: 8, Width: 8, In: 16, Out: 48, KH: 3, KW: 3, PadH: 1, PadW: 1},
	{Batch: 1, Height: 9, Width: 6, In: 20, Out: 33, KH: 3, KW: 3, PadH: 1, PadW: 1, Stride: 2},
	{Batch: 2, Height: 6, Width: 5, In: 32, Out: 16, KH: 3, KW: 3, PadH: 1, PadW: 1, Upsample: true},
	{Batch: 3, Height: 4, Width: 5, In: 12, Out: 65, KH: 1, KW: 1},
	{Batch: 2, Height: 17, Width: 13, In: 8, Out: 70, KH: 3, KW: 3, PadH: 1, PadW: 1},
	{Batch: 1, Height: 11, Width: 30, In: 4, Out: 35, KH: 5, KW: 2, PadH: 1, PadW: 0, DstStride: 36},
	{Batch: 1, Height: 20, Width: 18, In: 3, Out: 12, KH: 7, KW: 5, PadH: 3, PadW: 2, DstStride: 20,
		DstOffset: 5},
	{Batch: 1, Height: 3, Width: 3, In: 4, Out: 2, KH: 5, KW: 5, PadH: 3, PadW: 4, Stride: 3,
		Upsample: true},
	{Batch: 2, Height: 7, Width: 7, In: 8, Out: 4, KH: 1, KW: 1, Stride: 2},
}

// device has the methods that the tests of convolutions need.
type device interface {
	New(shape ...int) *tensor.Dense
	Write(dst *tensor.Dense, row int, src []float32)
	Pack(out, in int, as backend.Precision, row backend.RowFunc) backend.Matrix
	Conv(dst, x *tensor.Dense, s backend.ConvShape, w backend.Matrix, in backend.ConvInput,
		e backend.Epilogue)
}

// convolve runs a convolution of the n-th random input.
func convolve(b device, s backend.ConvShape, as backend.Precision, n int) *tensor.Dense {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	random := func(shape ...int) *tensor.Dense {
		t := b.New(shape...)
		b.Write(t, 0, normals(r, t.DataSize()))
		return t
	}
	stride, _ := backend.ConvTarget(s)
	in := s.KH * s.KW * s.In
	x, dst := random(s.Batch, s.Height, s.Width, s.In),
		random(s.Batch, s.OutHeight(), s.OutWidth(), stride)
	w := b.Pack(s.Out, in, as, rows(normals(r, s.Out*in), in))
	var input backend.ConvInput
	if n%3 > 0 {
		input = backend.ConvInput{Scale: random(s.Batch, s.In), Shift: random(s.Batch, s.In),
			SiLU: n%3 == 2}
	}
	b.Conv(dst, x, s, w, input,
		backend.Epilogue{Bias: random(s.Out), Act: backend.ReLU, Add: n%2 == 0})
	return dst
}

func TestConvAgreesWithReference(t *testing.T) {
	each(t, []int{2}, func(t *testing.T, b *Backend) {
		for i, s := range windows {
			for n := range 3 {
				got, want := convolve(b, s, backend.F32, 3*i+n), convolve(plain.New(), s, backend.F32, 3*i+n)
				require.InDeltaSlice(t, want.Float32s(), got.Float32s(), 2e-4, "%+v, input %d", s, n)
			}
			for _, as := range []backend.Precision{backend.BF16, backend.Int8} {
				got, want := convolve(b, s, as, i), convolve(plain.New(), s, as, i)
				require.InDeltaSlice(t, want.Float32s(), got.Float32s(), 0.7, "%v %+v", as, s)
			}
		}
	})
}

func TestConvBits(t *testing.T) {
	for i, s := range windows {
		want := convolve(New(Options{Threads: 1}), s, backend.F32, 2*i)
		for _, threads := range []int{2, 3, 16} {
			same(t, want.Float32s(),
				convolve(New(Options{Threads: threads}), s, backend.F32, 2*i).Float32s())
		}
	}
}

// A band has the same pixels however many rows it has, and goes on where the one before ended.
func TestConvBands(t *testing.T) {
	each(t, []int{1, 2}, func(t *testing.T, b *Backend) {
		for i, s := range windows {
			want := convolve(b, s, backend.F32, 2*i)
			for _, words := range []int{1, 3 * (s.OutWidth() + 8) * s.In} {
				b.conv.targetWords = words
				same(t, want.Float32s(), convolve(b, s, backend.F32, 2*i).Float32s())
			}
			b.conv.targetWords = bandWords
		}
	})
}

// doubled runs a convolution of a doubled image by folded weights, if folded, or by Conv.
func doubled(b *Backend, s backend.ConvShape, as backend.Precision, folded bool) *tensor.Dense {
	r := rand.New(rand.NewPCG(6, 7))
	x := b.New(s.Batch, s.Height, s.Width, s.In)
	dst := b.New(s.Batch, s.OutHeight(), s.OutWidth(), s.Out)
	b.Write(x, 0, normals(r, x.DataSize()))
	row := rows(normals(r, s.Out*9*s.In), 9*s.In)
	if !folded {
		b.Conv(dst, x, s, b.Pack(s.Out, 9*s.In, as, row), backend.ConvInput{}, backend.Epilogue{})
		return dst
	}
	var w [4]backend.Matrix
	for phase := range w {
		w[phase] = b.Pack(s.Out, 4*s.In, as, func(i int, dst []float32) {
			whole := make([]float32, 9*s.In)
			row(i, whole)
			backend.FoldDoubled(dst, whole, s.In, phase)
		})
	}
	run := func() { b.ConvDoubled(dst, x, s, &w, backend.ConvInput{}, backend.Epilogue{}) }
	run()
	if n := testing.AllocsPerRun(2, run); n > 0 {
		panic(fmt.Sprintf("%v allocations", n))
	}
	return dst
}

// Folded weights give what Conv gives with Upsample, in every precision, and the same bits with any
// number of threads and rows of a band.
func TestConvDoubled(t *testing.T) {
	for _, s := range []backend.ConvShape{
		{Batch: 2, Height: 9, Width: 14, In: 16, Out: 40},
		{Batch: 1, Height: 12, Width: 3, In: 5, Out: 70},
	} {
		s.KH, s.KW, s.PadH, s.PadW, s.Upsample = 3, 3, 1, 1, true
		want := doubled(New(Options{Threads: 1}), s, backend.F32, true).Float32s()
		each(t, []int{1, 3}, func(t *testing.T, b *Backend) {
			same(t, want, doubled(b, s, backend.F32, true).Float32s())
			b.conv.targetWords = 1
			same(t, want, doubled(b, s, backend.F32, true).Float32s())
			b.conv.targetWords = bandWords
			for as, tolerance := range map[backend.Precision]float64{backend.F32: 2e-4, backend.BF16: 0.7,
				backend.Int8: 0.7} {
				require.InDeltaSlice(t, doubled(b, s, backend.F32, false).Float32s(),
					doubled(b, s, as, true).Float32s(), tolerance, "%v %+v", as, s)
			}
		})
	}
}

func TestConvAllocatesNothing(t *testing.T) {
	b := New(Options{Threads: 2})
	for _, s := range windows[:5] {
		x, dst := b.New(s.Batch, s.Height, s.Width, s.In),
			b.New(s.Batch, s.OutHeight(), s.OutWidth(), s.Out)
		w := b.Pack(s.Out, s.KH*s.KW*s.In, backend.Int8, func(int, []float32) {})
		in := backend.ConvInput{Scale: b.New(s.Batch, s.In), Shift: b.New(s.Batch, s.In), SiLU: true}
		require.Zero(t, testing.AllocsPerRun(3, func() { b.Conv(dst, x, s, w, in, backend.Epilogue{}) }),
			"%+v", s)
	}
}

func BenchmarkConv(b *testing.B) {
	dev := New(Options{})
	for _, c := range [][2]int{{256, 128}, {128, 256}} {
		for _, silu := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/%v", c[0], silu), func(b *testing.B) {
				s := backend.ConvShape{Batch: 1, Height: c[0], Width: c[0], In: c[1], Out: c[1], KH: 3, KW: 3,
					PadH: 1, PadW: 1}
				x, dst := dev.New(1, c[0], c[0], c[1]), dev.New(1, c[0], c[0], c[1])
				w := dev.Pack(c[1], 9*c[1], backend.F32, func(int, []float32) {})
				var in backend.ConvInput
				if silu {
					in = backend.ConvInput{Scale: dev.New(1, c[1]), Shift: dev.New(1, c[1]), SiLU: true}
				}
				for b.Loop() {
					dev.Conv(dst, x, s, w, in, backend.Epilogue{})
				}
				b.ReportMetric(2*9*float64(c[0]*c[0]*c[1]*c[1])*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
			})
		}
	}
}
