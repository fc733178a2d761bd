package main

import (
	"math"

	"unmask/internal/simd/_asm/neon"
)

// The formulas and their errors are explained beside the kernels for amd64, in vec/functions.go.

// power is e^z as p*2^a*2^b.
type power struct{ p, a, b neon.V }

const ln2 = 0.693147182464599609375 // math.Ln2 as a float32

// exp is for z in [-143, 89]; tail is added to z, and is none if it is negative.
func (k kernel) exp(z, tail neon.V) power {
	n := k.K(3 << 22)
	k.FMLA(n, z, k.K(math.Log2E))
	n = k.FSub(n, k.K(3<<22))
	r := k.Copy(z)
	k.FMLS(r, n, k.K(ln2))
	k.FMLS(r, n, k.K(math.Ln2-ln2))
	if tail >= 0 {
		r = k.FAdd(r, tail)
	}
	q := k.horner(r, 0.00139262508, 0.00836323288, 0.0416665542, 0.166665767, 0.5)
	p := k.FMLA(k.Copy(r), k.FMul(r, r), q)
	p = k.FAdd(p, k.K(1))
	i := k.Round(n)
	half := k.SRight(i, 1)
	return power{p, k.exponent(half), k.exponent(k.ISub(i, half))}
}

const none neon.V = -1

// exponent is 2^i.
func (k kernel) exponent(i neon.V) neon.V { return k.Left(k.IAdd(i, k.Bits(127)), 23) }

// horner evaluates a polynomial, the highest coefficient first.
func (k kernel) horner(x neon.V, coefficients ...float64) neon.V {
	p := k.K(coefficients[0])
	for _, c := range coefficients[1:] {
		p = k.FMLA(k.K(c), p, x)
	}
	return p
}

// error is a*b-product, rounded once.
func (k kernel) error(a, b, product neon.V) neon.V { return k.FMLA(k.FNeg(product), a, b) }

func (k kernel) scaled(x neon.V, e power) neon.V { return k.FMul(k.FMul(x, e.a), e.b) }

func (k kernel) value(e power) neon.V { return k.scaled(e.p, e) }

// clamp is x, but from low to high; NaN stays.
func (k kernel) clamp(x neon.V, low, high float64) neon.V {
	return k.FMin(k.K(high), k.FMax(k.K(low), x))
}

func (k kernel) expOf(x neon.V) neon.V { return k.value(k.exp(k.clamp(x, -104, 89), none)) }

// gate is x*sigmoid(|z|) where x is positive, x*sigmoid(z) elsewhere, for z of -|z|; near is x no
// further from zero than where the result has underflown. One division serves both.
func (k kernel) gate(x, near, z, tail neon.V) neon.V {
	e := k.exp(z, tail)
	one := k.FAdd(k.value(e), k.K(1))
	q := k.FDiv(k.Select(k.Negative(x), k.FMul(near, e.p), x), one)
	return k.Select(k.Negative(x), k.scaled(q, e), q) // Select ends its mask
}

func (k kernel) silu(x neon.V) neon.V {
	near := k.FMax(k.K(-110), x)
	return k.gate(x, near, k.FNeg(k.FMin(k.K(110), k.FAbs(near))), none)
}

func (k kernel) geluTanh(x neon.V) neon.V {
	const c1, c3 = 1.5957691216057308, 0.07135481627159471
	near := k.clamp(x, -12, 12)
	a := k.FAbs(near)
	s := k.FMul(a, a)
	stail := k.error(a, a, s)
	cubic := k.K(c3)
	t := k.FMul(s, cubic)
	ttail := k.error(s, cubic, t)
	k.FMLA(ttail, s, k.K(c3-float64(float32(c3))))
	k.FMLA(ttail, stail, cubic)
	c := k.FAdd(t, k.K(c1))
	back := k.FSub(c, t)
	ctail := k.FAdd(k.FSub(k.K(c1), back), k.FSub(t, k.FSub(c, back)))
	ctail = k.FAdd(ctail, ttail)
	ctail = k.FAdd(ctail, k.K(c1-float64(float32(c1))))
	z := k.FMul(a, c)
	ztail := k.FMLA(k.error(a, c, z), a, ctail)
	return k.gate(x, near, k.FNeg(z), k.FNeg(ztail))
}

func (k kernel) geluErf(x neon.V) neon.V {
	near := k.FMax(k.K(-15), x)
	a := k.FMin(k.K(15), k.FAbs(near))
	s := k.FMul(a, a)
	half := k.K(-0.5)
	e := k.exp(k.FMul(s, half), k.FMul(k.error(a, a, s), half))
	center := k.K(3.25)
	u := k.FDiv(k.FSub(a, center), k.FAdd(a, center))
	q := k.horner(u, 5.94055155e-05, 0.000160217806, -0.00027384582, -0.00111626932, 0.00210907804,
		0.00581807824, -0.0272930331, 0.0420900172, -0.00729496197, -0.0974741382, 0.482171264)
	q = k.FMul(k.FDiv(q, k.FAdd(a, k.K(1))), e.p)
	negative := k.scaled(k.FMul(near, q), e)
	positive := k.FMLS(k.Copy(x), k.FMin(k.K(15), x), k.scaled(q, e))
	return k.Select(k.Negative(x), negative, positive)
}

func (k kernel) sinSquared(x neon.V) neon.V {
	const pi1, pi2, pi3 = 3.1415927410125732421875, -8.74227765734758577309e-08,
		-3.43024902320041e-15
	n := k.K(3 << 22)
	k.FMLA(n, x, k.K(1/math.Pi))
	n = k.FSub(n, k.K(3<<22))
	r := k.Copy(x)
	k.FMLS(r, n, k.K(pi1))
	k.FMLS(r, n, k.K(pi2))
	k.FMLS(r, n, k.K(pi3))
	r = k.clamp(r, -1.6, 1.6)
	s := k.FMul(r, r)
	return k.FMul(s, k.horner(s, 131072/6402373705728000.0, -32768/20922789888000.0,
		8192/87178291200.0, -2048/479001600.0, 512/3628800.0, -128/40320.0, 32/720.0, -8/24.0, 1))
}

// relu keeps -0 and NaN, as the others do.
func (k kernel) relu(x neon.V) neon.V { return k.AndNot(x, k.FNegative(x)) }

// maps writes the functions of one variable.
func maps(file *neon.File) {
	for _, m := range []struct {
		name, doc string
		f         func(kernel, neon.V) neon.V
	}{
		{"exp", "dst[i] = exp(x[i])", kernel.expOf},
		{"geluTanh", "dst[i] = x[i] * sigmoid(1.5957691*(x[i]+0.044715*x[i]*x[i]*x[i]))",
			kernel.geluTanh},
		{"geluErf", "dst[i] = x[i] * 0.5*erfc(-x[i]/sqrt2)", kernel.geluErf},
		{"silu", "dst[i] = x[i] / (1+exp(-x[i]))", kernel.silu},
		{"relu", "dst[i] = max(x[i], 0)", kernel.relu},
		{"sinSquared", "dst[i] = sin(x[i]) * sin(x[i])", kernel.sinSquared},
	} {
		write(file, m.name, "(dst, x *float32, n int)",
			"\tfor i := range n { "+m.doc+" }\n\nn is a multiple of 4.", func(k kernel) {
				dst, x, n := k.Param("dst"), k.Param("x"), k.Param("n")
				k.Each(n, 4, func() {
					k.Store(m.f(k, k.Load(neon.Mem{Base: x, Off: 16, Post: true})),
						neon.Mem{Base: dst, Off: 16, Post: true})
				})
				k.Return()
			})
	}
}
