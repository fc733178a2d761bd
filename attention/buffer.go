package attention

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Buffer holds queries, keys or values of a pass, [rows, heads*headDim], for networks that compute
// them separately: because they normalise all heads together, or because the rows of one attention
// come from different layers.
type Buffer struct {
	// T is [rows, heads*headDim].
	T *tensor.Dense

	// byHead is the same memory, [rows*heads, headDim].
	byHead *tensor.Dense
	heads  int

	// targets has, for each row of byHead, the row to which Put copies it.
	targets []int32
}

// Grow makes room for `rows` rows.
func (f *Buffer) Grow(b backend.Backend, rows, heads, headDim int) {
	if f.T != nil && f.T.Shape()[0] >= rows {
		return
	}
	f.heads = heads
	f.T = b.New(rows, heads*headDim)
	f.byHead = f.T.ShallowClone()
	if err := f.byHead.Reshape(rows*heads, headDim); err != nil {
		panic(err) // cannot happen: the number of values is the same
	}
}

// Put copies the first n rows to dst [batch, heads, length, headDim]: row i to position pos(i) of
// sequence seq(i).
func (f *Buffer) Put(b backend.Backend, dst *tensor.Dense, n int,
	place func(i int) (seq, pos int)) {
	length := dst.Shape()[2]
	f.targets = f.targets[:0]
	for i := range n {
		seq, pos := place(i)
		for h := range f.heads {
			f.targets = append(f.targets, int32((seq*f.heads+h)*length+pos))
		}
	}
	b.Scatter(dst, f.byHead, f.targets)
}

// PutRows is Put for the rows of a pass.
func (f *Buffer) PutRows(b backend.Backend, dst *tensor.Dense, rows *Rows) {
	segment := 0
	f.Put(b, dst, rows.Len(), func(i int) (seq, pos int) {
		for i >= rows.Segs[segment].Row+rows.Segs[segment].Rows {
			segment++
		}
		return rows.Segs[segment].Seq, int(rows.Pos[i])
	})
}
