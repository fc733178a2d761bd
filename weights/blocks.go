package weights

import (
	"fmt"

	"unmask/internal/quant"
)

// BlockFormat returns the block format in which products take the tensor, which may be another than
// the file's (quant.Type.ProductType); ok is false if it has none.
func (t *Tensor) BlockFormat() (quant.Type, bool) {
	q, ok := quant.Parse(string(t.DType))
	return q.ProductType(), ok
}

// ReadBlocks copies row i of a tensor in a block format [rows, width] to dst, in blocks of
// Quantised. dst has the size of a row. A NaN or infinite scale is an error.
func (t *Tensor) ReadBlocks(dst []byte, i int) error {
	q, ok := quant.Parse(string(t.DType))
	if !ok || len(t.Shape) < 1 {
		return fmt.Errorf("tensor %q: dtype is %s, want a block format", t.Name, t.DType)
	}
	width := t.Shape[len(t.Shape)-1]
	row := i
	if t.heads > 0 {
		row = t.stored(i)
	}
	data, err := t.span(row*width, width)
	if err != nil {
		return err
	}
	if want := q.ProductType().RowBytes(width); len(dst) != want {
		panic(fmt.Sprintf("weights: ReadBlocks: dst has %d bytes, a row of %q has %d", len(dst), t.Name,
			want))
	}
	finite := false
	if err := t.src.read(func() {
		if finite = quant.Finite(q, data); finite {
			quant.ConvertForProducts(q, dst, data)
		}
	}); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if !finite {
		return fmt.Errorf("tensor %q: row %d has a scale that is not finite", t.Name, i)
	}
	return nil
}

// HalfSplit returns a view of a query or key projection [heads*headDim, width] from a file in which
// the rows of each head are ordered for interleaved rotary embedding, pairs side by side. The
// view's rows are in half-split order: its row h*headDim + s*headDim/2 + j is row h*headDim + 2j +
// s of the file. llama.cpp's converter writes LLaDA's projections in that order
// (convert_hf_to_gguf.py, permute).
func (t *Tensor) HalfSplit(heads int) (*Tensor, error) {
	if len(t.Shape) != 2 || heads < 1 || t.Shape[0]%(2*heads) != 0 {
		return nil, fmt.Errorf("tensor %q: shape is %v, want [rows, width] with rows a multiple of 2 x "+
			"%d heads", t.Name, t.Shape, heads)
	}
	view := *t
	view.heads = heads
	return &view, nil
}

// stored returns the row of the file that holds row i.
func (t *Tensor) stored(i int) int {
	dim := t.Shape[0] / t.heads
	half, at := dim/2, i%dim
	return i - at + at%half*2 + at/half
}

// eachStored calls read for each row, or part of one, of the n elements from off on: for n elements
// at position `at` of the piece, which are at element `from` of the file.
func (t *Tensor) eachStored(n, off int, read func(at, n, from int) error) error {
	if off < 0 || off > t.Numel() || n > t.Numel()-off {
		return fmt.Errorf("tensor %q: elements %d..%d wanted, it has %d", t.Name, off, off+n, t.Numel())
	}
	width := t.Shape[1]
	for at := 0; at < n; {
		row, column := (off+at)/width, (off+at)%width
		part := min(width-column, n-at)
		if err := read(at, part, t.stored(row)*width+column); err != nil {
			return err
		}
		at += part
	}
	return nil
}
