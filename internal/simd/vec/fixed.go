package vec

import "math"

// Scores in fixed point: queries and keys are 16-bit integers, x = n*scale, |n| at most fixedLimit,
// with a scale for each query and each key. Their products are exact, and their sums of dim
// products fit an int32. The rounding is finer than bfloat16's for all but outliers: 13 bits of a
// row's largest, against 8 of each element.

// fixedLimit is the largest integer for which dim products of two fit an int32.
func fixedLimit(dim int) float32 {
	return float32(min(math.MaxInt16, math.Floor(math.Sqrt(float64(math.MaxInt32)/float64(dim)))-1))
}

// FixRows rounds keys x [rows, dim] to the integers of dst [rows, dim/2] words and their scales.
// dim is a multiple of 16.
func (o Ops) FixRows(dst, scale, x []float32, rows, dim int) {
	_ = dst[rows*dim/2-1] // the assembly checks no bounds, here and below
	_ = scale[rows-1]
	_ = x[rows*dim-1]
	limit := fixedLimit(dim)
	o.fixRows(dst, scale, x, rows, dim, limit, 1/limit)
}

// FixQueries rounds queries x [dim, lanes] to the integers of dst [dim/2, lanes] words and their
// scales. dim is even.
func (p Panel) FixQueries(dst, scale, x []float32, dim int) {
	n := p.Lanes()
	_ = dst[dim/2*n-1]
	_ = scale[n-1]
	_ = x[dim*n-1]
	limit := fixedLimit(dim)
	for j := 0; j < n; j += line {
		p.ops.fixLanes(dst[j:], scale[j:min(j+line, n)], x[j:], dim/2, n, limit, 1/limit)
	}
}

// ScoresFixed is Scores of integers: k [keys, dim/2] as FixRows makes it with its scale, q [dim/2,
// lanes] as FixQueries does. The unit of each lane's scores is the scale of its query.
func (p Panel) ScoresFixed(s, k, scale, q []float32, keys, dim int, next []float32) {
	n := p.Lanes()
	_ = s[keys*n-1]
	_ = k[keys*dim/2-1]
	_ = scale[keys-1]
	_ = q[dim/2*n-1]
	p.scoresFixed(s, k, scale, q, keys, dim/2, address(next, k))
}

// SoftmaxFixed is Softmax of such scores, scale being those of the queries; keys is even. The
// weights become words of s [keys/2, lanes] that hold two bfloat16 along the keys.
func (p Panel) SoftmaxFixed(s, scale, top, sum, alpha []float32, keys int) {
	n := p.Lanes()
	_ = s[keys*n-1]
	_ = scale[n-1]
	_ = top[n-1]
	_ = sum[n-1]
	_ = alpha[n-1]
	for j := 0; j < n; j += line {
		p.ops.softmaxFixed(s[j:], scale[j:min(j+line, n)], top[j:], sum[j:], alpha[j:], keys/2, n)
	}
}

// The plain Go twins.

// integers are the two int16 of a word.
func integers(word float32) (low, high int32) {
	u := math.Float32bits(word)
	return int32(int16(u)), int32(int16(u >> 16))
}

// fix rounds the n values that value returns to integers, calls set with each pair of them, and
// returns their scale. limit is the largest integer, unit its inverse.
func fix(n int, limit, unit float32, value func(i int) float32,
	set func(i int, low, high uint16)) (scale float32) {
	m := float32(1e-30)
	for i := range n {
		m = max(m, float32(math.Abs(float64(value(i))))) // NaN stays
	}
	inverse := limit / m
	round := func(i int) uint16 {
		v := math.RoundToEven(float64(value(i)) * float64(inverse))
		return uint16(int16(max(math.MinInt16, min(v, math.MaxInt16))))
	}
	for i := 0; i < n; i += 2 {
		set(i/2, round(i), round(i+1))
	}
	return m * unit
}

func fixRows(dst, scale, x []float32, rows, dim int, limit, unit float32) {
	for i := range rows {
		scale[i] = fix(dim, limit, unit, func(j int) float32 { return x[i*dim+j] },
			func(j int, low, high uint16) {
				dst[i*dim/2+j] = math.Float32frombits(uint32(low) | uint32(high)<<16)
			})
	}
}

// fixLanes is for a line of lanes, or as many as have a scale.
func fixLanes(dst, scale, x []float32, pairs, lanes int, limit, unit float32) {
	for l := range scale {
		scale[l] = fix(2*pairs, limit, unit, func(i int) float32 { return x[i*lanes+l] },
			func(i int, low, high uint16) {
				dst[i*lanes+l] = math.Float32frombits(uint32(low) | uint32(high)<<16)
			})
	}
}

func scoresFixed(s, k, scale, q []float32, keys, words, lanes int) {
	for i := range keys {
		for j := range lanes {
			var sum int32
			for w := range words {
				a, b := integers(k[i*words+w])
				c, d := integers(q[w*lanes+j])
				sum += a*c + b*d
			}
			s[i*lanes+j] = float32(sum) * scale[i]
		}
	}
}

// softmaxFixed is for a line of lanes, as fixLanes is.
func softmaxFixed(s, scale, top, sum, alpha []float32, pairs, lanes int) {
	for j, unit := range scale {
		m := top[j]
		for i := range 2 * pairs {
			s[i*lanes+j] *= unit
			if v := s[i*lanes+j]; v > m {
				m = v
			}
		}
		alpha[j] = exp2(top[j] - m)
		top[j] = m
		sum[j] *= alpha[j]
		for i := range pairs {
			a := exp2(s[2*i*lanes+j] - m)
			b := exp2(s[(2*i+1)*lanes+j] - m)
			sum[j] += a + b
			s[i*lanes+j] = word(a, b)
		}
	}
}
