package model

import (
	"context"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
)

// Observer is shown what a full pass computes inside, by networks that support it. Blocks are
// counted from 0 over all stacks of the network.
type Observer interface {
	// Hidden is called with the residual stream x [rows, width] before each block, and once more
	// after the last with the number of blocks. The rows are those of p; see Pass.At.
	Hidden(block int, p *Pass, x *tensor.Dense)
	// Attention is called with a block's queries q [rows, heads*headDim] for the rows of p, after
	// rotation and normalisation, and its keys and values [batch, kv, length, headDim].
	Attention(block int, p *Pass, q, k, v *tensor.Dense, h backend.Heads)
}

// ObserveHidden passes the residual stream before a block to the batch's observer.
func (q *Pass) ObserveHidden(block int, x *tensor.Dense) {
	if o := q.passes.batch.Observer; o != nil {
		o.Hidden(block, q, x)
	}
}

// RunBlocks runs a network's blocks over the rows of q, with the residual stream in x, which the
// batch's observer is shown. block returns the rows that are left, without those that nobody
// reads; where none is left, no further block runs.
func (q *Pass) RunBlocks(ctx context.Context, x *tensor.Dense, blocks int,
	block func(i int, q *Pass) *Pass) (*Pass, error) {
	for i := range blocks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.ObserveHidden(i, x)
		q = block(i, q)
		if q.Len() == 0 {
			return q, nil
		}
	}
	q.ObserveHidden(blocks, x)
	return q, nil
}

// ObserveAttention passes a block's queries, keys and values to the batch's observer.
func (q *Pass) ObserveAttention(block int, queries *tensor.Dense, layer *attention.Layer) {
	if o := q.passes.batch.Observer; o != nil {
		k, v := q.KV(block)
		o.Attention(block, q, queries, k, v, layer.Shape(q.Keys))
	}
}
