package vec

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// power is e^z for z in [-143, 89] as p*2^n with p near 1.
type power struct {
	p Op
	n any // as the machine's exponents
}

// exp reduces z+tail to r in [-ln2/2, ln2/2] and evaluates 1+r+r^2*q(r), q a Chebyshev
// interpolation (relative error 1e-8).
func (k kernels) exp(z, tail Op) power {
	magic := k.m(3 << 22)
	n := k.fma(z, k.m(math.Log2E), magic)
	n = k.sub(n, magic)
	r := k.fnma(n, k.m(ln2), z)
	r = k.fnma(n, k.m(math.Ln2-ln2), r)
	if tail != nil {
		r = k.add(r, tail)
	}
	q := k.horner(r, expCoefficients...)
	p := k.fma(k.mul(r, r), q, r)
	return power{k.add(p, k.m(1)), k.exponents(n)}
}

const ln2 = 0.693147182464599609375 // math.Ln2 as a float32

var expCoefficients = []float64{0.00139262508, 0.00836323288, 0.0416665542, 0.166665767, 0.5}

// keepExp keeps the constants of exp, and more.
func (k kernels) keepExp(more ...float64) {
	k.keep(3<<22, math.Log2E, ln2, math.Ln2-ln2, 1)
	k.keep(expCoefficients...)
	k.keep(more...)
}

// horner evaluates a polynomial, the highest coefficient first.
func (k kernels) horner(x Op, coefficients ...float64) Op {
	p := k.k(coefficients[0])
	for _, c := range coefficients[1:] {
		p = k.next(p, x, k.m(c))
	}
	return p
}

// value is e^z.
func (k kernels) value(e power) Op { return k.scale(e.p, e.n) }

// expOf is e^x for any x.
func (k kernels) expOf(x Op) Op {
	x = k.min(k.k(89), k.max(k.k(-104), x))
	return k.value(k.exp(x, nil))
}

// gate is x*sigmoid(z): x/(1+e) where x is positive, x*e/(1+e) where it is negative, e = exp(-|z|).
// near is x no further from zero than where the negative side has underflown. One division serves
// both.
func (k kernels) gate(x, near, z, tail Op) Op {
	// z is -|z|
	e := k.exp(z, tail)
	one := k.add(k.value(e), k.m(1))
	q := k.div(k.negative(x, k.mul(near, e.p), x), one)
	return k.scaleWhere(x, q, e.n)
}

// silu is x*sigmoid(x).
func (k kernels) silu(x Op) Op {
	near := k.max(k.k(-110), x)
	return k.gate(x, near, k.minus(k.min(k.k(110), k.abs(near))), nil)
}

// c1 is 2*sqrt(2/pi), and c3 0.044715 times that.
const c1, c3 = 1.5957691216057308, 0.07135481627159471

// geluTanh is x*sigmoid(2u), u = sqrt(2/pi)(x+0.044715x^3), with 2u in two floats: its
// absolute error is the result's relative error.
func (k kernels) geluTanh(x Op) Op {
	near := k.min(k.k(12), k.max(k.k(-12), x))
	a := k.abs(near)
	s := k.mul(a, a)
	stail := k.fms(a, a, s)
	cubic := k.m(c3)
	t := k.mul(s, cubic)
	ttail := k.fms(s, cubic, t)
	ttail = k.fma(s, k.m(c3-float64(float32(c3))), ttail)
	ttail = k.fma(stail, cubic, ttail)
	// c = c1 + t by Knuth's two-sum
	c := k.add(t, k.m(c1))
	back := k.sub(c, t)
	ctail := k.add(k.sub(k.k(c1), back), k.sub(t, k.sub(c, back)))
	ctail = k.add(ctail, ttail)
	ctail = k.add(ctail, k.m(c1-float64(float32(c1))))
	z := k.mul(a, c)
	ztail := k.fms(a, c, z)
	ztail = k.fma(a, ctail, ztail)
	return k.gate(x, near, k.minus(z), k.minus(ztail))
}

// geluErf is x*Phi(x): Phi(-a) = exp(-a^2/2)*Q(a), (1+a)Q a polynomial in
// (a-3.25)/(a+3.25) (Chebyshev interpolation on [0, 15.2], relative error 3e-9).
func (k kernels) geluErf(x Op) Op {
	near := k.max(k.k(-15), x)
	a := k.min(k.k(15), k.abs(near))
	s := k.mul(a, a)
	tail := k.fms(a, a, s)
	half := k.m(-0.5)
	e := k.exp(k.mul(s, half), k.mul(tail, half))
	u := k.div(k.sub(a, k.m(3.25)), k.add(a, k.m(3.25)))
	q := k.horner(u, erfCoefficients...)
	q = k.div(q, k.add(a, k.m(1)))
	q = k.mul(q, e.p)
	negative := k.scale(k.mul(near, q), e.n)
	phi := k.scale(q, e.n)
	positive := k.fnma(k.min(k.k(15), x), phi, x)
	return k.negative(x, negative, positive)
}

var erfCoefficients = []float64{5.94055155e-05, 0.000160217806, -0.00027384582, -0.00111626932,
	0.00210907804,
	0.00581807824, -0.0272930331, 0.0420900172, -0.00729496197, -0.0974741382, 0.482171264}

// sinSquared reduces x to r in [-pi/2, pi/2], the period of its square, with pi in three floats,
// and evaluates the Taylor series (relative error 3e-9). The clamp bounds it where x is beyond 1e7.
func (k kernels) sinSquared(x Op) Op {
	magic := k.m(3 << 22)
	n := k.fma(x, k.m(1/math.Pi), magic)
	n = k.sub(n, magic)
	r := k.fnma(n, k.m(pi1), x)
	r = k.fnma(n, k.m(pi2), r)
	r = k.fnma(n, k.m(pi3), r)
	r = k.min(k.k(1.6), k.max(k.k(-1.6), r))
	s := k.mul(r, r)
	return k.mul(s, k.horner(s, sineCoefficients...))
}

const (
	pi1 = 3.1415927410125732421875 // math.Pi as a float32
	pi2 = -8.74227765734758577309e-08
	pi3 = -3.43024902320041e-15
)

var sineCoefficients = []float64{131072 / 6402373705728000.0, -32768 / 20922789888000.0,
	8192 / 87178291200.0, -2048 / 479001600.0, 512 / 3628800.0, -128 / 40320.0, 32 / 720.0,
	-8 / 24.0, 1}

// functions writes the functions of one variable.
func (k kernels) functions() {
	for _, f := range []struct {
		name, doc string
		f         func(Op) Op
		constants []float64
	}{
		{"exp", "dst[i] = exp(x[i])", k.expOf, []float64{-104, 89}},
		{"geluTanh", "dst[i] = x[i] * sigmoid(1.5957691*(x[i]+0.044715*x[i]*x[i]*x[i]))", k.geluTanh,
			[]float64{c1, c1 - float64(float32(c1)), c3, c3 - float64(float32(c3)), 12, -12}},
		{"geluErf", "dst[i] = x[i] * 0.5*erfc(-x[i]/sqrt2)", k.geluErf, erfCoefficients},
		{"silu", "dst[i] = x[i] / (1+exp(-x[i]))", k.silu, []float64{-110, 110}},
		{"relu", "dst[i] = max(x[i], 0)", k.relu, nil},
		{"sinSquared", "dst[i] = sin(x[i]) * sin(x[i])", k.sinSquared,
			append([]float64{1 / math.Pi, pi1, pi2, pi3, 1.6, -1.6}, sineCoefficients...)},
	} {
		k.text(f.name, "(dst, x *float32, n int)",
			"for i := range n { "+f.doc+" }\n\nn is a multiple of 16.")
		dst := k.pointer("dst")
		x := k.pointer("x")
		n := k.pointer("n")
		if f.constants != nil {
			k.keepExp(f.constants...)
		}
		k.each(n, []Op{dst, x}, func(at func(Op) Op) { k.store(f.f(k.load(at(x))), at(dst)) })
		k.ret()
	}
}
