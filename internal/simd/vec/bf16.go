package vec

import (
	"math"

	"unmask/internal/bfloat16"
)

// The plain Go twins of attention's kernels in bfloat16.

func word(low, high float32) float32 {
	return math.Float32frombits(uint32(bfloat16.Round(low)) | uint32(bfloat16.Round(high))<<16)
}

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
	a, b := bfloat16.Halves(word)
	for j := range acc {
		x, y := bfloat16.Halves(row[j])
		acc[j] += float32(a*x) + float32(b*y)
	}
}
