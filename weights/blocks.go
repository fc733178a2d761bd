package weights

import (
	"fmt"

	"unmask/internal/quant"
)

// BlockFormat returns the block format in which products take the tensor; ok is false if its type
// is not one of blocks. The format may differ from the file's (quant.Type.ProductType), because not
// every format of a file has kernels of its own.
func (t *Tensor) BlockFormat() (quant.Type, bool) {
	q, ok := quant.Parse(string(t.DType))
	return q.ProductType(), ok
}

// ReadBlocks copies row i of a tensor in a block format [rows, width] to dst, in blocks of
// BlockFormat. dst has the size of a row. A NaN or infinite scale is an error: it would spread over
// a whole row of the product, far from the file that caused it.
func (t *Tensor) ReadBlocks(dst []byte, i int) error {
	q, ok := quant.Parse(string(t.DType))
	if !ok || len(t.Shape) < 1 {
		return fmt.Errorf("tensor %q: dtype is %s, want a block format", t.Name, t.DType)
	}
	width := t.Shape[len(t.Shape)-1]
	row := i
	if t.heads > 0 {
		row = t.fileRow(i)
	}
	data, err := t.elementBytes(row*width, width)
	if err != nil {
		return err
	}
	if want := q.ProductType().RowBytes(width); len(dst) != want {
		panic(fmt.Sprintf("weights: ReadBlocks: dst has %d bytes, a row of %q has %d", len(dst), t.Name,
			want))
	}

	isFinite := false
	err = t.src.read(func() {
		isFinite = quant.Finite(q, data)
		if isFinite {
			quant.ConvertForProducts(q, dst, data)
		}
	})
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if !isFinite {
		return fmt.Errorf("tensor %q: row %d has a scale that is not finite", t.Name, i)
	}
	return nil
}

// HalfSplit returns a view of a query or key projection [heads*headDim, width] from a file in which
// the rows of each head are ordered for interleaved rotary embedding, pairs side by side. The
// view's rows are in half-split order: its row h*headDim + s*headDim/2 + j is row h*headDim + 2j +
// s of the file. llama.cpp's converter writes LLaDA's projections in that order
// (convert_hf_to_gguf.py, permute).
//
// It is a view and not a copy, so that the rows of a mapped file are read once, where they are
// packed.
func (t *Tensor) HalfSplit(heads int) (*Tensor, error) {
	if len(t.Shape) != 2 || heads < 1 || t.Shape[0]%(2*heads) != 0 {
		return nil, fmt.Errorf("tensor %q: shape is %v, want [rows, width] with rows a multiple of 2 x "+
			"%d heads", t.Name, t.Shape, heads)
	}
	view := *t
	view.heads = heads
	return &view, nil
}

// fileRow returns the row of the file that holds row i of a view of HalfSplit.
func (t *Tensor) fileRow(i int) int {
	headDim := t.Shape[0] / t.heads
	half := headDim / 2
	inHead := i % headDim
	return i - inHead + inHead%half*2 + inHead/half
}

// eachFilePart calls read for the n elements of a view of HalfSplit from element first on, row by
// row: these rows are not neighbours in the file. read gets the part's first element within the
// piece, its length, and its first element in the file.
func (t *Tensor) eachFilePart(n, first int, read func(pieceOff, length, fileOff int) error) error {
	if first < 0 || first > t.Numel() || n > t.Numel()-first {
		return fmt.Errorf("tensor %q: elements %d..%d wanted, it has %d", t.Name, first, first+n,
			t.Numel())
	}
	width := t.Shape[1]
	for pieceOff := 0; pieceOff < n; {
		row := (first + pieceOff) / width
		column := (first + pieceOff) % width
		length := min(width-column, n-pieceOff)
		if err := read(pieceOff, length, t.fileRow(row)*width+column); err != nil {
			return err
		}
		pieceOff += length
	}
	return nil
}
