package gemm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/internal/bfloat16"
	"unmask/internal/simd"
)

var nan = float32(math.NaN())

// each runs f on every kernel that this machine can run, and the plain Go ones.
func each(t *testing.T, f func(t *testing.T, k *Kernel)) {
	seen := map[*Kernel]bool{}
	for _, level := range simd.Available() {
		for _, format := range []Format{F32, BF16, Int8} {
			for _, k := range kernels(level, format) {
				if !seen[k] {
					seen[k] = true
					t.Run(fmt.Sprintf("%v/%d/%dx%d", level, k.Format, k.Rows, k.Columns),
						func(t *testing.T) { f(t, k) })
				}
			}
		}
	}
	for _, format := range []Format{BF16, BF16Wide, Int8, Int8Wide, Int8Signed} {
		t.Run(fmt.Sprintf("twin/%d", format), func(t *testing.T) { f(t, generic(format)) })
	}
}

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// operands are factors in every form a test needs.
type operands struct {
	x     []float32   // [rows, depth]
	w     [][]float32 // [columns][depth]
	a, b  []float32   // packed
	scale []float32   // of rows
	wide  []float32   // of columns
	sum   []int32     // of a column's levels
}

func pack(k *Kernel, r *rand.Rand, rows, depth int) *operands {
	o := &operands{x: random(r, rows*depth), a: random(r, k.SizeA(rows, depth)),
		b:     make([]float32, k.SizeB(depth)),
		scale: make([]float32, rows), wide: make([]float32, k.Columns), sum: make([]int32, k.Columns)}
	for range k.Columns {
		o.w = append(o.w, random(r, depth))
	}
	k.PackA(o.a, o.scale, o.x, depth, rows, depth)
	for c := 0; c < k.Columns; c += 16 {
		ldx := depth + 17
		columns := make([]float32, 16*ldx)
		for i, w := range o.w[c : c+16] {
			copy(columns[i*ldx:], w)
		}
		s, q := k.PackColumns(o.b, c, columns, ldx, depth)
		copy(o.wide[c:], s[:])
		copy(o.sum[c:], q[:])
	}
	return o
}

// want is element (i, j) of the product added to c, by the format's own arithmetic.
func (o *operands) want(k *Kernel, i, j, depth int, c float32) float32 {
	x, w := o.x[i*depth:(i+1)*depth], o.w[j]
	switch k.Format {
	case F32:
		for d := range x {
			c = fma(x[d], w[d], c)
		}
	case BF16Wide, BF16:
		at := func(x []float32, d int) float32 {
			if d >= len(x) {
				return 0
			}
			return bfloat16.Float32(bfloat16.Round(x[d]))
		}
		for d := 0; d < depth; d += 2 {
			if k.Format == BF16 {
				c = dot2(at(x, d), at(x, d+1), at(w, d), at(w, d+1), c)
				continue
			}
			c = fma(at(x, d), at(w, d), c)
			c = fma(at(x, d+1), at(w, d+1), c)
		}
	default:
		sum := int32(math.Float32bits(c))
		_, a := k.Levels(x)
		_, b := k.Levels(w)
		for d := range x {
			sum += (round(x[d]*a) + k.Offset()) * round(w[d]*b)
		}
		return math.Float32frombits(uint32(sum))
	}
	return c
}

func TestMul(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		r := rand.New(rand.NewPCG(1, 2))
		deep := k.Values()*depthStep + 5
		for _, shape := range [][2]int{{0, 5}, {1, 1}, {2, 4}, {3, 7}, {4, 15}, {5, 16}, {6, 17}, {7, 31},
			{8, 33},
			{9, 64}, {10, 65}, {11, 20}, {12, 48}, {13, 2}, {25, 13}, {3, deep}} {
			rows, depth := shape[0], shape[1]
			o, ldc := pack(k, r, rows, depth), k.Columns+3
			c := make([]float32, (rows+2)*ldc)
			for i := range c {
				c[i] = nan
			}
			for _, acc := range []bool{false, true} {
				var before []float32
				if acc {
					before = append(before, c...)
				}
				k.Mul(c[ldc:], ldc, o.a, o.b, rows, k.Lines(depth), acc)
				for i := range c {
					row, column := i/ldc-1, i%ldc
					if row < 0 || row >= rows || column >= k.Columns {
						require.Equal(t, math.Float32bits(nan), math.Float32bits(c[i]), "%v: wrote outside, at %d %d",
							shape, row, column)
						continue
					}
					var start float32
					if acc {
						start = before[i]
					}
					want := o.want(k, row, column, depth, start)
					if k.Format == BF16 { // how VDPBF16PS rounds inside is not the same on all processors
						require.InDelta(t, want, c[i], 1e-5*float64(depth), "%v acc %v at %d %d", shape, acc, row,
							column)
						continue
					}
					require.Equal(t, math.Float32bits(want), math.Float32bits(c[i]),
						"%v acc %v at %d %d: %v, want %v", shape, acc, row, column, c[i], want)
				}
			}
		}
	})
}

// TestRowsAlone: a row's result does not depend on the rows beside it.
func TestRowsAlone(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		const rows, depth = 15, 37
		o := pack(k, rand.New(rand.NewPCG(3, 4)), rows, depth)
		all := make([]float32, rows*k.Columns)
		k.Mul(all, k.Columns, o.a, o.b, rows, k.Lines(depth), false)
		for i := range rows {
			k.PackA(o.a, o.scale, o.x[i*depth:], depth, 1, depth)
			one := make([]float32, k.Columns)
			k.Mul(one, k.Columns, o.a, o.b, 1, k.Lines(depth), false)
			for j, v := range one {
				require.Equal(t, math.Float32bits(all[i*k.Columns+j]), math.Float32bits(v))
			}
		}
	})
}

// Windows that are read where they stand give the bits of packed ones, whatever is between and
// behind them.
func TestWindows(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		if !k.ReadsWindows(4) {
			t.SkipNow()
		}
		require.False(t, k.ReadsWindows(6))
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(3, rapid.Uint64().Draw(t, "seed")))
			run, runs := 4*rapid.IntRange(1, 9).Draw(t, "lines"), rapid.IntRange(1, 4).Draw(t, "runs")
			lda := rapid.IntRange(0, 40).Draw(t, "lda")
			pitch := rapid.IntRange(0, 400).Draw(t, "pitch")
			depth := run * runs
			o := pack(k, r, k.Rows, depth)
			x := random(r, (runs-1)*pitch+(k.Rows-1)*lda+run)
			for i := range k.Rows {
				for n := range runs {
					copy(o.x[i*depth+n*run:], x[i*lda+n*pitch:][:run])
				}
			}
			k.PackA(o.a, o.scale, o.x, depth, k.Rows, depth)
			want, got := random(r, k.Rows*k.Columns), random(r, k.Rows*k.Columns)
			k.Mul(want, k.Columns, o.a, o.b, k.Rows, k.Lines(depth), false)
			k.Windows(got, x, o.b, lda, run, runs, pitch)
			require.Equal(t, want, got)
		})
	})
}

// TestScaleRecoversProducts: the whole way of the int8 formats, against float64.
func TestScaleRecoversProducts(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		if !k.Quantised() {
			t.Skip("no levels")
		}
		const rows, depth = 7, 203
		o := pack(k, rand.New(rand.NewPCG(5, 6)), rows, depth)
		tile, offset := make([]float32, rows*k.Columns), make([]float32, k.Columns)
		for j, s := range o.sum {
			offset[j] = math.Float32frombits(uint32(s * k.Offset()))
		}
		k.Mul(tile, k.Columns, o.a, o.b, rows, k.Lines(depth), false)
		k.Scale(tile, k.Columns, o.scale, o.wide, offset, rows)
		for i := range rows {
			for j := range k.Columns {
				var want float64
				for d := range depth {
					want += float64(o.x[i*depth+d]) * float64(o.w[j][d])
				}
				require.InDelta(t, want, tile[i*k.Columns+j], 1.5)
			}
		}
	})
}

// TestScale compares with the plain Go twin.
func TestScale(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		const rows, ldt = 5, 61
		r := rand.New(rand.NewPCG(13, 14))
		ints := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = math.Float32frombits(r.Uint32() >> r.IntN(32))
			}
			return x
		}
		tile, offset := ints(rows*ldt), ints(k.Columns)
		row, col := random(r, rows), random(r, k.Columns)
		want := slices.Clone(tile)
		scaleGo(&want[0], &row[0], &col[0], &offset[0], ldt, rows, k.Columns)
		k.Scale(tile, ldt, row, col, offset, rows)
		for i := range want {
			require.Equal(t, math.Float32bits(want[i]), math.Float32bits(tile[i]), "word %d", i)
		}
	})
}

func TestScaleOfUndefinedRows(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		inf := float32(math.Inf(1))
		for n := 1; n < 20; n++ {
			for at := range n {
				x := make([]float32, n)
				for _, bad := range []float32{nan, inf, -inf} {
					x[at] = bad
					scale, _ := k.Levels(x)
					require.True(t, scale != scale)
				}
				x[at] = -254
				scale, inverse := k.Levels(x)
				require.Equal(t, []float32{2, 0.5}, []float32{scale, inverse})
			}
		}
		scale, inverse := k.Levels(make([]float32, 9))
		require.Equal(t, []float32{0, 0}, []float32{scale, inverse})
	})
}

// TestPackRun compares the packing with its plain Go twin, special values included.
func TestPackRun(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		twin, r := generic(k.Format), rand.New(rand.NewPCG(7, 8))
		special := []float32{nan, float32(math.Inf(1)), float32(math.Inf(-1)), 0,
			float32(math.Copysign(0, -1)), 1e-40, -3.4e38, 3.4028235e38,
			math.Float32frombits(0x7f800001), 1.00390625, 1.01171875}
		for n := 1; n < 70; n++ {
			x, inverse := random(r, n), float32(37)
			if !k.Quantised() { // levels of special values stay within the row's
				x[r.IntN(n)] = special[r.IntN(len(special))]
			}
			const stride = 7
			size := k.Lines(n)*stride + 2
			got, want := make([]float32, size), make([]float32, size)
			for i := range got {
				got[i], want[i] = nan, nan
			}
			k.PackRun(got, stride, x, inverse)
			twin.PackRun(want, stride, x, inverse)
			for i := range got {
				require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "%d values, word %d", n,
					i)
			}
		}
	})
}

func TestStore(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		r := rand.New(rand.NewPCG(9, 10))
		for columns := range k.Columns + 1 {
			const rows, ldd = 3, 53
			for flags := range 4 {
				add, biased := flags&1 != 0, flags&2 != 0
				tile, dst := random(r, rows*k.Columns), random(r, rows*ldd)
				var bias []float32
				if biased {
					bias = random(r, columns)
				}
				want := append([]float32(nil), dst...)
				for i := range rows {
					for j := range columns {
						y := tile[i*k.Columns+j]
						if biased {
							y += bias[j]
						}
						if add {
							y += dst[i*ldd+j]
						}
						want[i*ldd+j] = y
					}
				}
				k.Store(dst, ldd, tile, k.Columns, bias, rows, columns, add)
				require.Equal(t, want, dst)
			}
		}
	})
}

func TestTimes(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		r := rand.New(rand.NewPCG(13, 14))
		for columns := range k.Columns + 1 {
			const rows, ldx = 3, 53
			tile, x := random(r, rows*k.Columns), random(r, rows*ldx)
			want := append([]float32(nil), tile...)
			for i := range rows {
				for j := range columns {
					want[i*k.Columns+j] *= x[i*ldx+j]
				}
			}
			k.Fetch(x, ldx, rows, columns)
			k.Times(tile, k.Columns, x, ldx, rows, columns)
			require.Equal(t, want, tile)
		}
	})
}

func TestPackB(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel) {
		if k.Format != F32 {
			t.Skip("for float32")
		}
		r := rand.New(rand.NewPCG(11, 12))
		for _, columns := range []int{1, 5, k.Columns} {
			const depth = 13
			src := random(r, depth*k.Columns)
			byRow, byColumn := random(r, k.SizeB(depth)), random(r, k.SizeB(depth))
			turned := make([]float32, len(src))
			for d := range depth {
				for c := range k.Columns {
					turned[c*depth+d] = src[d*k.Columns+c]
				}
			}
			k.PackB(byRow, src, depth, columns, k.Columns, 1)
			k.PackB(byColumn, turned, depth, columns, 1, depth)
			require.Equal(t, byRow, byColumn)
			for i, v := range byRow {
				d, c := i/k.Columns, i%k.Columns
				if d < depth && c < columns {
					require.Equal(t, src[d*k.Columns+c], v)
				} else {
					require.Zero(t, v)
				}
			}
		}
	})
}

// TestFMA compares with exact arithmetic, over operands that make halfway cases common.
func TestFMA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) float32 {
			mantissa := rapid.Uint32Range(0, 0x7fffff).Draw(t, name)
			if rapid.Bool().Draw(t, name+" short") {
				mantissa &= 0x7ff000
			}
			e := rapid.Uint32Range(90, 140).Draw(t, name+" exponent")
			if rapid.IntRange(0, 9).Draw(t, name+" small") == 0 {
				e = rapid.Uint32Range(0, 30).Draw(t, name+" low exponent")
			}
			return math.Float32frombits(rapid.Uint32Range(0, 1).Draw(t, name+" sign")<<31 | e<<23 | mantissa)
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		exact := func(x float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(x)) }
		sum := exact(a)
		sum.Mul(sum, exact(b)).Add(sum, exact(c))
		want, _ := sum.Float32()
		if got := fma(a, b, c); got != want {
			t.Fatalf("%x*%x+%x is %x, want %x", a, b, c, got, want)
		}
	})
	inf := float32(math.Inf(1))
	require.Equal(t, inf, fma(inf, 2, 1))
	require.True(t, math.IsNaN(float64(fma(inf, 0, 1))))
	require.Equal(t, inf, fma(3e38, 10, 0))
}

func TestForWastesLittle(t *testing.T) {
	level := simd.Available()[0]
	for _, columns := range []int{0, 16, 128, 768, 50258} {
		k := KernelFor(level, F32, columns)
		for _, other := range kernels(level, F32) {
			require.LessOrEqual(t, paddingColumns(k, columns), paddingColumns(other, columns))
		}
	}
}

func BenchmarkMul(b *testing.B) {
	for _, format := range []Format{F32, BF16, Int8} {
		k := KernelFor(simd.Available()[0], format, 0)
		depth := 256 * formats[k.Format].values
		o := pack(k, rand.New(rand.NewPCG(1, 1)), 4*k.Rows, depth)
		c := make([]float32, 4*k.Rows*k.Columns)
		b.Run(fmt.Sprintf("%d/%dx%d", k.Format, k.Rows, k.Columns), func(b *testing.B) {
			for b.Loop() {
				k.Mul(c, k.Columns, o.a, o.b, 4*k.Rows, k.Lines(depth), false)
			}
			b.ReportMetric(2*float64(4*k.Rows*k.Columns*depth)*float64(b.N)/b.Elapsed().Seconds()/1e9,
				"Gop/s")
		})
	}
}
