package cpu

import "unmask/internal/simd/gemm"

// multiplier packs and multiplies panels of one format: dense for numbers, blockwise for the
// formats of GGUF. Sizes are in words, depth is a matrix's inputs.
type multiplier interface {
	// sizePanel returns the words of a panel of weights and of what follows it.
	sizePanel(depth int) int

	// sizeRows returns the words and the scales of an operand.
	sizeRows(rows, depth int) (words, scales int)

	// pack packs rows of x, ldx values apart, as the first rows of a.
	pack(a operand, x []float32, ldx, rows, depth int, w *worker)

	// multiply computes a tile, whose rows are ldt apart, from the first rows of a and a panel.
	multiply(tile []float32, ldt int, a operand, panel []float32, rows, depth int, w *worker)
}

// dense is the multiplier of float32, bfloat16 and int8.
type dense struct{ *gemm.Kernel }

// sizePanel returns how many numbers a packed panel of weights takes: behind quantised ones are the
// scale and the offset of each column.
func (k dense) sizePanel(depth int) int {
	n := k.SizeB(depth)
	if k.Quantised() {
		n += 2 * k.Columns
	}
	return n
}

func (k dense) sizeRows(rows, depth int) (words, scales int) { return k.SizeA(rows, depth), rows }

func (k dense) pack(a operand, x []float32, ldx, rows, depth int, _ *worker) {
	k.PackA(a.data, a.scale, x, ldx, rows, depth)
}

// multiply computes a tile of products. Those of whole numbers become numbers of the layer by the
// scales of both sides.
func (k dense) multiply(tile []float32, ldt int, a operand, panel []float32, rows, depth int,
	_ *worker) {
	k.Mul(tile, ldt, a.data, panel, rows, k.Lines(depth), false)
	if k.Quantised() {
		scale, offset := k.scales(panel)
		k.Scale(tile, ldt, a.scale, scale, offset, rows)
	}
}

// scales returns the scales of a panel's columns, and their offsets.
func (k dense) scales(panel []float32) (scale, offset []float32) {
	behind := panel[len(panel)-2*k.Columns:]
	return behind[:k.Columns], behind[k.Columns:]
}

// blockwise is the multiplier of block formats.
type blockwise struct{ *gemm.Blocks }

func (k blockwise) sizePanel(depth int) int { return k.SizeB(depth) }

func (k blockwise) sizeRows(rows, depth int) (words, scales int) { return k.SizeA(rows, depth), 0 }

func (k blockwise) pack(a operand, x []float32, ldx, rows, depth int, w *worker) {
	k.PackA(a.data, x, ldx, rows, depth, w.scratch.get(gemm.PackScratch))
}

func (k blockwise) multiply(tile []float32, ldt int, a operand, panel []float32, rows, depth int,
	w *worker) {
	k.Mul(tile, ldt, a.data, panel, rows, depth, w.scratch.get(k.Scratch()))
}
