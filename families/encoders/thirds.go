package encoders

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
)

// thirds norms queries or keys over all heads together, as ESM-C does before heads are cut. Kernels
// take whole rows, so it views nn.Work.QKV [rows, 3*hidden] as [3*rows, hidden], where every third
// row has queries.
type thirds struct {
	view *tensor.Dense // [3*rows, hidden], the memory of source
	// source is the QKV of which view is one.
	source *tensor.Dense
	rows   []int32 // of the view
}

// norm applies a norm to the queries (third 0) or the keys (third 1) of the first n rows of w.QKV.
// It uses w.Q, which is free until heads are split.
func (f *thirds) norm(b backend.Backend, w *nn.Work, third int32, norm *nn.LayerNorm, n int) {
	if f.source != w.QKV {
		rows := backend.Rows(w.QKV)
		f.source = w.QKV
		f.view = w.QKV.ShallowClone()
		if err := f.view.Reshape(3*rows, w.QKV.Shape()[1]/3); err != nil {
			panic(err) // cannot happen: the number of values is the same
		}
	}
	f.rows = f.rows[:0]
	for i := range int32(n) {
		f.rows = append(f.rows, 3*i+third)
	}
	b.Gather(w.Q, f.view, f.rows)
	norm.Apply(b, w.Q, w.Q, n) // [rows, hidden]
	b.Scatter(f.view, w.Q, f.rows)
}
