package vec

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
)

// Attention is a product for scores, a softmax, and a product with values, on panels that have a
// query in each lane.

const (
	scoresSignature = "(s, k, q *float32, keys, dim int, next uintptr)"
	valuesSignature = "(o, v, s, alpha *float32, keys, dim int, next uintptr)"
)

// fetches describes the prefetching that a product does: the next keys and values come from memory
// while the present ones are multiplied. ahead is the bytes for each word.
func fetches(ahead int) string {
	return fmt.Sprintf("Meanwhile %d*keys*dim bytes from next on are fetched into the caches.", ahead)
}

// scoresDoc describes the products of a block of keys with a panel of queries.
func scoresDoc(lanes, ahead int) string {
	return fmt.Sprintf("for i := range keys {\n\tfor j := range %[1]d {\n\t\ts[i][j] = 0\n\t\tfor d := "+
		"range dim { s[i][j] += k[i][d]*q[d][j] }\n\t}\n}\n\n"+
		"s is [keys, %[1]d], k [keys, dim], q [dim, %[1]d]. ", lanes) + fetches(ahead)
}

// valuesDoc describes the product of a block of values with the weights of a panel of queries.
func valuesDoc(lanes, ahead int, term string) string {
	return fmt.Sprintf("for d := range dim {\n\tfor j := range %[1]d {\n\t\to[d][j] *= alpha[j]\n\t\tfor i "+
		":= range keys { o[d][j] += "+term+" }\n\t}\n}\n\n"+
		"o is [dim, %[1]d], v [keys, dim], s [keys, %[1]d]. ", lanes) + fetches(ahead)
}

// softmaxDoc describes the step of the online softmax.
func softmaxDoc(lanes, shape string) string {
	return "for j := range " + lanes + " {\n\tm := top[j]\n\tfor i := range keys { m = max(m, s[i][j]) " +
		"}\n\talpha[j], top[j] = exp2(top[j]-m), m\n\tsum[j] *= alpha[j]\n\tfor i := range keys { s[i][j] = " +
		"exp2(s[i][j]-m); sum[j] += s[i][j] }\n}\n\n" + shape + " exp2 is 0 below 2^-127."
}

// exp2 has the constants of 2^z in registers.
type exp2 struct {
	kernels
	least, magic Op
	c            []Op
}

func (k kernels) newExp2(coefficients []float64) exp2 {
	e := exp2{kernels: k, least: k.k(-127), magic: k.k(3<<22 + 127)}
	for _, c := range coefficients {
		e.c = append(e.c, k.k(c))
	}
	return e
}

// of is 2^z for z <= 0: 2^n from the low bits of z + 1.5*2^23 + 127, times a polynomial on
// [-1/2, 1/2]. At -127 and below it is 0.
func (e exp2) of(z Op) Op {
	z = e.max(e.least, z)
	t := e.add(z, e.magic)
	f := e.sub(z, e.sub(t, e.magic))
	p := e.fma(e.c[0], f, e.c[1])
	for _, c := range e.c[2:] {
		p = e.next(p, f, c)
	}
	return e.power(t, p)
}

// exp2Coefficients interpolate exp2 at Chebyshev points, relative error 2e-7.
var exp2Coefficients = []float64{0.00133813025, 0.00966636852, 0.0555038101, 0.24022349,
	0.693147181, 1}
