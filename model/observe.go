package model

import (
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
)

// Observer sees what a full pass computes inside, of networks that show it. A block is counted from
// 0, over all stacks of the network.
type Observer interface {
	// Hidden is called with the residual stream x [rows, width] before each block, and with the
	// number of blocks after the last. The rows are those of p; see Pass.At.
	Hidden(block int, p *Pass, x *tensor.Dense)
	// Attention is called with a block's queries q [rows, heads*headDim] for the rows of p, rotated
	// and normalised as they are multiplied, and its keys and values [batch, kv, length, headDim].
	Attention(block int, p *Pass, q, k, v *tensor.Dense, h backend.Heads)
}

// Hidden shows the residual stream before a block to the batch's observer.
func (q *Pass) Hidden(block int, x *tensor.Dense) {
	if o := q.of.batch.Observer; o != nil {
		o.Hidden(block, q, x)
	}
}

// Attended shows a block's attention to the batch's observer.
func (q *Pass) Attended(block int, queries *tensor.Dense, layer *attention.Layer) {
	if o := q.of.batch.Observer; o != nil {
		k, v := q.KV(block)
		o.Attention(block, q, queries, k, v, layer.Shape(q.Keys))
	}
}
