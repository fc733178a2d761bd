package vec

import "math"

// The plain Go twins of attention's kernels in bfloat16.

// halves are the two bfloat16 of a word.
func halves(word float32) (low, high float32) {
	u := math.Float32bits(word)
	return math.Float32frombits(u << 16), math.Float32frombits(u &^ 0xffff)
}

// bfloat16 rounds to nearest even; a NaN stays one.
func bfloat16(x float32) uint32 {
	u := math.Float32bits(x)
	if x != x {
		return u>>16 | 0x40
	}
	return (u + 0x7fff + u>>16&1) >> 16
}

func word(low, high float32) float32 { return math.Float32frombits(bfloat16(low) | bfloat16(high)<<16) }

func pairBF16(dst, x []float32, pairs, width int) {
	for i := range pairs {
		for j := range width {
			dst[i*width+j] = word(x[2*i*width+j], x[(2*i+1)*width+j])
		}
	}
}

func valuesBF16(o, v, s, alpha []float32, pairs, dim, lanes int) {
	for d := range dim {
		row := o[d*lanes : (d+1)*lanes]
		for j := range row {
			row[j] *= alpha[j]
		}
		for i := range pairs {
			dotBF16(row, v[i*dim+d], s[i*lanes:])
		}
	}
}

// dotBF16 adds the products of both halves of a word and of each of a row.
func dotBF16(acc []float32, word float32, row []float32) {
	a, b := halves(word)
	for j := range acc {
		x, y := halves(row[j])
		acc[j] += float32(a*x) + float32(b*y)
	}
}
