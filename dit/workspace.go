package dit

import (
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
)

// workspace is the memory of a pass. It grows to the largest pass seen and is used again.
type workspace struct {
	x, h, q *tensor.Dense  // [rows, hidden]: residual stream, branch, queries
	qkv     *tensor.Dense  // [rows, 3*hidden]
	inner   *tensor.Dense  // [rows, mlp]
	hidden  *tensor.Dense  // [batch*length, hidden]: what the last passes left
	head    *tensor.Dense  // [rows of one head call, hidden]
	cache   *kvcache.Cache // one layer, for passes that keep no keys and values

	rows      attention.Rows
	list, ids []int32
	mods      *modulations // of time-conditioned networks
}

// prepare makes room for passes of `rows` rows of a batch with `all`.
func (w *workspace) prepare(b backend.Backend, c Config, rows, all int) {
	if w.x == nil || w.x.Shape()[0] < rows {
		w.x, w.h, w.q = b.New(rows, c.Hidden), b.New(rows, c.Hidden), b.New(rows, c.Hidden)
		w.qkv, w.inner = b.New(rows, 3*c.Hidden), b.New(rows, c.MLP)
	}
	if w.hidden == nil || w.hidden.Shape()[0] < all {
		w.hidden = b.New(all, c.Hidden)
	}
}

func (w *workspace) prepareHead(b backend.Backend, c Config, rows int) {
	if w.head == nil || w.head.Shape()[0] < rows {
		w.head = b.New(rows, c.Hidden)
	}
}

// keys returns the tensors that take block i's keys and values.
func (w *workspace) keys(b *model.Batch, i int) (k, v *tensor.Dense) {
	if b.Cache != nil {
		return b.Cache.K[i], b.Cache.V[i]
	}
	return w.cache.K[0], w.cache.V[0]
}
