package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// power is e^z for z in [-143, 89] as p*2^n with p near 1.
type power struct {
	p, n reg.VecVirtual
}

// exp reduces z+tail to r in [-ln2/2, ln2/2] and evaluates 1+r+r^2*q(r), q a Chebyshev
// interpolation (relative error 1e-8).
func (w width) exp(z, tail reg.VecVirtual) power {
	magic := w.m(3 << 22)
	n := w.fma(z, w.m(math.Log2E), magic)
	n = w.sub(n, magic)
	r := w.fnma(n, w.m(ln2), z)
	r = w.fnma(n, w.m(math.Ln2-ln2), r)
	if tail != nil {
		r = w.add(r, tail)
	}
	q := w.horner(r, expCoefficients...)
	p := w.fma(w.mul(r, r), q, r)
	return power{w.add(p, w.m(1)), n}
}

const ln2 = 0.693147182464599609375 // math.Ln2 as a float32

var (
	expCoefficients = []float64{0.00139262508, 0.00836323288, 0.0416665542, 0.166665767, 0.5}
	expConstants    = append([]float64{3 << 22, math.Log2E, ln2, math.Ln2 - ln2, 1},
		expCoefficients...)
)

// exponent is 2^i.
func (w width) exponent(i reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	VPADDD(w.bits(127), i, r)
	VPSLLD(U8(23), r, r)
	return r
}

// scale returns x*2^n, rounded once. AVX-512 has an instruction for it. AVX2 takes two steps; the
// first is exact, because a caller's x is tiny only if n is 0.
func (w width) scale(x, n reg.VecVirtual) reg.VecVirtual {
	if w.lanes == 16 {
		r := w.reg()
		VSCALEFPS(n, x, r)
		return r
	}
	i, half := w.reg(), w.reg()
	VCVTPS2DQ(n, i)
	VPSRAD(U8(1), i, half)
	VPSUBD(half, i, i)
	return w.mul(w.mul(x, w.exponent(half)), w.exponent(i))
}

// times is x*e^z.
func (w width) times(x reg.VecVirtual, e power) reg.VecVirtual {
	return w.scale(w.mul(x, e.p), e.n)
}

// value is e^z.
func (w width) value(e power) reg.VecVirtual { return w.scale(e.p, e.n) }

// expOf is e^x for any x.
func (w width) expOf(x reg.VecVirtual) reg.VecVirtual {
	x = w.min(w.k(89), w.max(w.k(-104), x))
	return w.value(w.exp(x, nil))
}

func (w width) abs(x reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	w.and(w.bits(0x7fffffff), x, r)
	return r
}

func (w width) minus(x reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	w.xor(w.bits(0x80000000), x, r)
	return r
}

// gate is x*sigmoid(z): x/(1+e) where x is positive, x*e/(1+e) where it is negative, e = exp(-|z|).
// near is x no further from zero than where the negative side has underflown. One division serves
// both.
func (w width) gate(x, near, z, tail reg.VecVirtual) reg.VecVirtual {
	// z is -|z|
	e := w.exp(z, tail)
	one := w.add(w.value(e), w.m(1))
	q := w.div(w.negative(x, w.mul(near, e.p), x), one)
	return w.scale(q, w.negative(x, e.n, w.zero()))
}

// silu is x*sigmoid(x).
func (w width) silu(x reg.VecVirtual) reg.VecVirtual {
	near := w.max(w.k(-110), x)
	return w.gate(x, near, w.minus(w.min(w.k(110), w.abs(near))), nil)
}

// c1 is 2*sqrt(2/pi), and c3 0.044715 times that.
const c1, c3 = 1.5957691216057308, 0.07135481627159471

// geluTanh is x*sigmoid(2u), u = sqrt(2/pi)(x+0.044715x^3), with 2u in two floats: its
// absolute error is the result's relative error.
func (w width) geluTanh(x reg.VecVirtual) reg.VecVirtual {
	near := w.min(w.k(12), w.max(w.k(-12), x))
	a := w.abs(near)
	s := w.mul(a, a)
	stail := w.fms(a, a, s)
	t := w.mul(s, w.m(c3))
	ttail := w.fms(s, w.m(c3), t)
	ttail = w.fma(s, w.m(c3-float64(float32(c3))), ttail)
	ttail = w.fma(stail, w.m(c3), ttail)
	// c = c1 + t by Knuth's two-sum
	c := w.add(t, w.m(c1))
	back := w.sub(c, t)
	ctail := w.add(w.sub(w.k(c1), back), w.sub(t, w.sub(c, back)))
	ctail = w.add(ctail, ttail)
	ctail = w.add(ctail, w.m(c1-float64(float32(c1))))
	z := w.mul(a, c)
	ztail := w.fms(a, c, z)
	ztail = w.fma(a, ctail, ztail)
	return w.gate(x, near, w.minus(z), w.minus(ztail))
}

// geluErf is x*Phi(x): Phi(-a) = exp(-a^2/2)*Q(a), (1+a)Q a polynomial in
// (a-3.25)/(a+3.25) (Chebyshev interpolation on [0, 15.2], relative error 3e-9).
func (w width) geluErf(x reg.VecVirtual) reg.VecVirtual {
	near := w.max(w.k(-15), x)
	a := w.min(w.k(15), w.abs(near))
	s := w.mul(a, a)
	tail := w.fms(a, a, s)
	half := w.m(-0.5)
	e := w.exp(w.mul(s, half), w.mul(tail, half))
	u := w.div(w.sub(a, w.m(3.25)), w.add(a, w.m(3.25)))
	q := w.horner(u, erfCoefficients...)
	q = w.div(q, w.add(a, w.m(1)))
	q = w.mul(q, e.p)
	negative := w.scale(w.mul(near, q), e.n)
	phi := w.scale(q, e.n)
	positive := w.fnma(w.min(w.k(15), x), phi, x)
	return w.negative(x, negative, positive)
}

var erfCoefficients = []float64{5.94055155e-05, 0.000160217806, -0.00027384582, -0.00111626932,
	0.00210907804,
	0.00581807824, -0.0272930331, 0.0420900172, -0.00729496197, -0.0974741382, 0.482171264}

// sinSquared reduces x to r in [-pi/2, pi/2], the period of its square, with pi in three floats,
// and evaluates the Taylor series (relative error 3e-9). The clamp bounds it where x is beyond 1e7.
func (w width) sinSquared(x reg.VecVirtual) reg.VecVirtual {
	magic := w.m(3 << 22)
	n := w.fma(x, w.m(1/math.Pi), magic)
	n = w.sub(n, magic)
	r := w.fnma(n, w.m(pi1), x)
	r = w.fnma(n, w.m(pi2), r)
	r = w.fnma(n, w.m(pi3), r)
	r = w.min(w.k(1.6), w.max(w.k(-1.6), r))
	s := w.mul(r, r)
	return w.mul(s, w.horner(s, sineCoefficients...))
}

const (
	pi1 = 3.1415927410125732421875 // math.Pi as a float32
	pi2 = -8.74227765734758577309e-08
	pi3 = -3.43024902320041e-15
)

var sineCoefficients = []float64{131072 / 6402373705728000.0, -32768 / 20922789888000.0,
	8192 / 87178291200.0, -2048 / 479001600.0, 512 / 3628800.0, -128 / 40320.0, 32 / 720.0,
	-8 / 24.0, 1}

func (w width) relu(x reg.VecVirtual) reg.VecVirtual { return w.max(w.zero(), x) }

// maps generates the functions of one variable.
func (w width) maps() {
	for _, f := range []struct {
		name, doc string
		f         func(reg.VecVirtual) reg.VecVirtual
		constants []float64
	}{
		{"exp", "dst[i] = exp(x[i])", w.expOf, []float64{-104, 89}},
		{"geluTanh", "dst[i] = x[i] * sigmoid(1.5957691*(x[i]+0.044715*x[i]*x[i]*x[i]))", w.geluTanh,
			[]float64{c1, c1 - float64(float32(c1)), c3, c3 - float64(float32(c3)), 12, -12}},
		{"geluErf", "dst[i] = x[i] * 0.5*erfc(-x[i]/sqrt2)", w.geluErf, erfCoefficients},
		{"silu", "dst[i] = x[i] / (1+exp(-x[i]))", w.silu, []float64{-110, 110}},
		{"relu", "dst[i] = max(x[i], 0)", w.relu, nil},
		{"sinSquared", "dst[i] = sin(x[i]) * sin(x[i])", w.sinSquared,
			append([]float64{1 / math.Pi, pi1, pi2, pi3, 1.6, -1.6}, sineCoefficients...)},
	} {
		w.text(f.name, "(dst, x *float32, n int)",
			"for i := range n { "+f.doc+" }\n\nn is a multiple of 16.")
		dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
		if f.constants != nil {
			w.keep(expConstants...)
			w.keep(f.constants...)
		}
		w.each(n, []reg.Register{dst, x}, func() {
			VMOVUPS(f.f(w.load(Mem{Base: x})), Mem{Base: dst})
		})
		ret()
	}
}
