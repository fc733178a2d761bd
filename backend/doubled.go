package backend

import "gorgonia.org/tensor"

// Doubler is a Backend that convolves doubled images in fewer multiplications than Conv does with
// Up.
//
// The pixels of a doubled image are equal in blocks of 2x2, so that a 3x3 window of it covers 2x2
// pixels of the image itself. The weights of taps on the same pixel are added beforehand
// (FoldDoubled), which leaves four of nine multiplications. Which taps share a pixel depends on
// whether the row and the column of the result are even or odd, so there are four matrices.
type Doubler interface {
	// ConvDoubled is Conv for a shape with Up, 3x3 windows, padding 1 and stride 1. w[2*y+x]
	// [Out, 4*In] are the folded weights of the result's pixels whose row is y and whose column is x
	// modulo 2.
	ConvDoubled(dst, x *tensor.Dense, s ConvShape, w *[4]Matrix, in ConvInput, e Epilogue)
}

// FoldDoubled writes a row [4*in] of ConvDoubled's w[phase] from the row [9*in] of Conv's weights.
// Taps are rows of windows, then columns, the input channel fastest in both.
func FoldDoubled(dst, row []float32, in, phase int) {
	clear(dst[:4*in])
	for t := range 9 {
		// of three taps in line, an even pixel has two on its own source, and so has an odd one: the
		// last two or the first two
		y, x := (t/3+1-phase/2)/2, (t%3+1-phase%2)/2
		sum := dst[(2*y+x)*in:][:in]
		for c, v := range row[t*in:][:in] {
			sum[c] += v
		}
	}
}
