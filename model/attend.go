package model

import (
	"unmask/attention"
	"unmask/backend"
	"unmask/nn"
)

// Attend computes the attention of a block, with queries, keys and values in w.QKV and the result
// in w.H, shows it to the batch's observer, and returns the rows that are left: those in keep, or
// all if it is nil. Keys and values of all go to the cache, because rows of later passes see them.
func (q *Pass) Attend(b backend.Backend, layer *attention.Layer, w *nn.Work, block int,
	keep []int32) *Pass {
	k, v := q.KV(block)
	layer.SplitQKV(b, w.Q, k, v, w.QKV, &q.Rows, q.Keys)
	if keep != nil {
		q = q.Pick(keep)
		if q.Len() == 0 {
			return q
		}
		w.KeepRows(b, keep)
	}
	layer.Attend(b, w.H, w.Q, k, v, &q.Rows, q.Keys)
	q.ObserveAttention(block, w.Q, layer)
	return q
}

// RowsToRead returns the rows that are read if the block is the last, which computes no others, nil
// for all.
func (q *Pass) RowsToRead(last bool) []int32 {
	if last {
		return q.ReadRows
	}
	return nil
}
