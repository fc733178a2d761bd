package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/simd"
)

// eachOps runs a test with the kernels of every instruction set here.
func eachOps(t *testing.T, test func(t *testing.T, o Ops)) {
	done := map[simd.ISA]bool{}
	for _, l := range simd.Available() {
		if !done[l.ISA] {
			done[l.ISA] = true
			t.Run(l.ISA.String(), func(t *testing.T) { test(t, Ops(l.ISA)) })
		}
	}
}

var nan, inf = float32(math.NaN()), float32(math.Inf(1))

// ulps is how far got is from want in units in the last place of want, as a float32.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	if got == w || got != got && w != w {
		return 0
	}
	if math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0) || got != got || w != w {
		return math.Inf(1)
	}
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(math.Ilogb(want)-23, -149))
}

// sample covers all float32 values: every sign, exponent and leading bits of the mantissa.
func sample(n int) []float32 {
	x := []float32{0, float32(math.Copysign(0, -1)), nan, inf, -inf, math.MaxFloat32, -math.MaxFloat32,
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		x = append(x, math.Float32frombits(uint32(i)<<16|r.Uint32()&0xffff))
		x = append(x, float32(r.Float64()*260-130), float32(r.NormFloat64()))
	}
	return x
}

// nearby is 1 where a reduction by multiples of pi is exact enough, else 0.
func nearby(x float64) float64 {
	if math.Abs(x) < 1e5 {
		return 1
	}
	return 0
}

func nearbySine(x float64) float64 {
	if nearby(x) == 0 {
		return 0
	}
	return sinSquared(x)
}

// ofNearby returns f of the numbers that are nearby, and of 0 for others.
func ofNearby(f func(dst, x []float32)) func(dst, x []float32) {
	return func(dst, x []float32) {
		in := slices.Clone(x)
		for i, v := range in {
			if nearby(float64(v)) == 0 {
				in[i] = 0
			}
		}
		f(dst[:len(x)], in)
	}
}

func TestFunctions(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		x := sample(1 << 16)
		dst := make([]float32, len(x))
		for _, f := range []struct {
			name  string
			f     func(dst, x []float32)
			want  func(float64) float64
			bound float64
		}{
			{"exp", o.Exp, math.Exp, 2},
			{"geluTanh", o.GELUTanh, geluTanh, 4},
			{"geluErf", o.GELUErf, geluErf, 4},
			{"silu", o.SiLU, silu, 4},
			{"relu", o.ReLU, relu, 0},
			{"sinSquared", ofNearby(o.SinSquared), nearbySine, 8},
		} {
			f.f(dst, x)
			worst, at := 0.0, 0
			for i, v := range x {
				if u := ulps(dst[i], f.want(float64(v))); u > worst {
					worst, at = u, i
				}
			}
			t.Logf("%s: %.2f ulp at %v", f.name, worst, x[at])
			require.LessOrEqual(t, worst, f.bound, "%s(%v) = %v", f.name, x[at], dst[at])
			// Any length and alignment has the same bits, and nothing around is written.
			for n := range 70 {
				guarded := make([]float32, n+9)
				for i := range guarded {
					guarded[i] = nan
				}
				f.f(guarded[3:3+n], x[1000:1000+n])
				equal(t, guarded[3:3+n], dst[1000:1000+n])
				for i, v := range guarded {
					require.True(t, i >= 3 && i < 3+n || v != v, "%s wrote around its %d values", f.name, n)
				}
				f.f(guarded[3:3+n], append(guarded[3:3], x[1000:1000+n]...))
				equal(t, guarded[3:3+n], dst[1000:1000+n])
			}
		}
	})
}

func equal(t *testing.T, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) && (got[i] == got[i] || w == w) {
			require.Failf(t, "bits differ", "value %d is %v, not %v", i, got[i], w)
		}
	}
}

// normal returns n normal deviates behind three other values, so rows are misaligned.
func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n+3)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x[3:]
}

func near(t *testing.T, what string, got, want float64, tolerance float64) {
	t.Helper()
	if got != want && !(math.Abs(got-want) <= tolerance) {
		require.Failf(t, what, "%v, not %v", got, want)
	}
}

const eps = 1.0 / (1 << 23)

// TestRows compares the kernels of rows with float64 loops, for each length up to several lines.
func TestRows(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		r := rand.New(rand.NewPCG(5, 6))
		for n := 1; n < 100; n++ {
			x, a, b := normal(r, n), normal(r, n), normal(r, n)
			tolerance := 8 * eps * (4 + math.Sqrt(float64(n)))
			var sum, squares, e, ed, top float64
			top = math.Inf(-1)
			for _, v := range x {
				top = max(top, float64(v))
			}
			for _, v := range x {
				sum += float64(v)
				squares += (float64(v) - 0.25) * (float64(v) - 0.25)
				e += math.Exp(1.5 * (float64(v) - top))
				d := float64(v) - top
				ed += d * math.Exp(d)
			}
			near(t, "Sum", float64(o.Sum(x)), sum, tolerance*math.Sqrt(float64(n)))
			near(t, "SumSquares", float64(o.SumSquares(x, 0.25)), squares, tolerance*squares)
			near(t, "SumExp", float64(o.SumExp(x, 1.5, float32(top))), e, tolerance*e)
			_, dot := o.SumExpDot(x, float32(top))
			near(t, "SumExpDot", float64(dot), ed, tolerance*(1-ed))
			one, _ := o.SumExpDot(x, float32(top))
			require.Equal(t, o.SumExp(x, 1, float32(top)), one)
			one, powers := o.SumExps(x, 1.5, float32(top))
			require.Equal(t, o.SumExp(x, 1, float32(top)), one)
			require.Equal(t, o.SumExp(x, 1.5, float32(top)), powers)

			// Dotted results, each with values beyond the row that must stay.
			row := func() []float32 { return append(make([]float32, 0, n+1), x...) }
			check := func(what string, dst []float32, want func(i int) float64) {
				t.Helper()
				for i, v := range dst {
					near(t, what, float64(v), want(i), 16*eps*(1+math.Abs(want(i))))
				}
				require.Zero(t, dst[:n+1][n], "%s wrote beyond its row", what)
			}
			dst := row()
			require.InDelta(t, maximumOf(x, a), o.Logits(dst, a, 2), 1e-6)
			check("Logits", dst, func(i int) float64 { return 2 * (float64(x[i]) + float64(a[i])) })
			dst = row()
			o.Logits(dst, nil, 3)
			check("Logits", dst, func(i int) float64 { return 3 * float64(x[i]) })
			dst = row()
			o.Modulate(dst, a, b)
			check("Modulate", dst, func(i int) float64 {
				return float64(x[i])*(1+float64(a[i])) +
					float64(b[i])
			})
			dst = row()
			o.Affine(dst, x, a, b)
			check("Affine", dst, func(i int) float64 { return float64(x[i])*float64(a[i]) + float64(b[i]) })
			copy(dst, x)
			o.MulAdd(dst, a, b)
			check("MulAdd", dst, func(i int) float64 { return float64(x[i]) + float64(a[i])*float64(b[i]) })
			dst = row()
			o.Add(dst, a)
			check("Add", dst, func(i int) float64 { return float64(x[i]) + float64(a[i]) })
			dst = row()
			o.AddScaled(dst, a, 1.5)
			check("AddScaled", dst, func(i int) float64 { return float64(x[i]) + 1.5*float64(a[i]) })
			dst = row()
			o.Multiply(dst, a)
			check("Multiply", dst, func(i int) float64 { return float64(x[i]) * float64(a[i]) })
			dst = row()
			o.Maximum(dst, a)
			check("Maximum", dst, func(i int) float64 { return max(float64(x[i]), float64(a[i])) })
			dst = row()
			o.Weights(dst, x, 2, float32(top))
			check("Weights", dst, func(i int) float64 { return math.Exp(2 * (float64(x[i]) - top)) })
			rms := math.Sqrt((squares+sum/2)/float64(n) - 1.0/16 + 0.5) // of x^2, from (x-1/4)^2
			dst = row()
			o.RMSNorm(dst, dst, a, 0.5)
			check("RMSNorm", dst, func(i int) float64 { return float64(x[i]) / rms * float64(a[i]) })
			dst = row()
			o.RMSNorm(dst, dst, nil, 0.5)
			check("RMSNorm", dst, func(i int) float64 { return float64(x[i]) / rms })
			if n > 1 {
				mean := sum / float64(n)
				variance := squares/float64(n) - (mean-0.25)*(mean-0.25)
				dst = row()
				o.LayerNorm(dst, x, a, b, 1e-3)
				for i, v := range dst {
					want := (float64(x[i])-mean)/math.Sqrt(variance+1e-3)*float64(a[i]) + float64(b[i])
					near(t, "LayerNorm", float64(v), want, 4*tolerance*(1+math.Abs(want)))
				}
				require.Zero(t, dst[:n+1][n])
			}
			if n%2 == 0 {
				dst, h := row(), n/2
				o.Rotate(dst, x, a[:h], b[:h])
				check("Rotate", dst, func(i int) float64 {
					c, s := float64(a[i%h]), float64(b[i%h])
					if i < h {
						return float64(x[i])*c - float64(x[i+h])*s
					}
					return float64(x[i-h])*s + float64(x[i])*c
				})
			}
			pixels := 1 + n%7
			image := normal(r, n*pixels)
			sums, squared := make([]float32, n), make([]float32, n)
			o.ColumnSums(sums, image)
			o.ColumnSquares(squared, image, a)
			for c := range n {
				var s, q float64
				for p := range pixels {
					v := float64(image[p*n+c])
					s += v
					q += (v - float64(a[c])) * (v - float64(a[c]))
				}
				near(t, "ColumnSums", float64(sums[c]), s, 32*eps*(1+math.Abs(s)))
				near(t, "ColumnSquares", float64(squared[c]), q, 32*eps*(1+q))
			}
		}
	})
}

func maximumOf(x, a []float32) float32 {
	top := -inf
	for i := range x {
		top = max(top, 2*(x[i]+a[i]))
	}
	return top
}

// TestForbidden: -Inf weighs nothing, NaN shows.
func TestForbidden(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		x := make([]float32, 40)
		for i := range x {
			x[i] = -inf
		}
		x[37] = 2
		require.EqualValues(t, 2, o.Logits(x, nil, 1))
		require.EqualValues(t, 1, o.SumExp(x, 1e3, 2))
		s, d := o.SumExpDot(x, 2)
		require.EqualValues(t, []float32{1, 0}, []float32{s, d})
		w := make([]float32, 40)
		o.Weights(w, x, 0.5, 2)
		require.EqualValues(t, 1, w[37])
		require.EqualValues(t, 0, w[36])
		x[3] = nan
		s = o.SumExp(x, 1, 2)
		require.True(t, s != s)
	})
}

// TestLeaders: maxima that stand once, several times, first, last, and beside NaN and infinities.
func TestLeaders(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		r := rand.New(rand.NewPCG(3, 3))
		for n := 1; n < 70; n++ {
			for _, levels := range []int{1, 2, 5, 1000} {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(r.IntN(levels)) - 3
				}
				if n > 3 {
					x[r.IntN(n)] = -inf
				}
				top, want, first := -inf, -inf, -1
				for i, v := range x {
					if v > top || first < 0 {
						want, top, first = top, v, i
					} else if v > want {
						want = v
					}
				}
				second, at := o.Leaders(x, top)
				require.Equal(t, want, second, "%v", x)
				require.Equal(t, first, at, "%v", x)
			}
		}
	})
}
