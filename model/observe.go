package model

import (
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

// Hidden passes the residual stream before a block to the batch's observer.
func (q *Pass) Hidden(block int, x *tensor.Dense) {
	if o := q.of.batch.Observer; o != nil {
		o.Hidden(block, q, x)
	}
}

// Attended passes a block's queries, keys and values to the batch's observer.
func (q *Pass) Attended(block int, queries *tensor.Dense, layer *attention.Layer) {
	if o := q.of.batch.Observer; o != nil {
		k, v := q.KV(block)
		o.Attention(block, q, queries, k, v, layer.Shape(q.Keys))
	}
}
