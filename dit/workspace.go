package dit

import (
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	nn.Work
	hidden *tensor.Dense  // [batch*length, hidden]: what the last passes left
	head   *tensor.Dense  // [rows of one call to the head, hidden]
	cache  *kvcache.Cache // one layer, for passes that keep no keys and values

	rows      attention.Rows
	list, ids []int32
	mods      *modulations // of time-conditioned networks
}

// prepare makes room for passes of `rows` rows of a batch with `all`.
func (w *workspace) prepare(b backend.Backend, c Config, rows, all int) {
	w.Prepare(b, rows, c.Hidden, c.MLP)
	w.hidden = nn.Grow(b, w.hidden, all, c.Hidden)
}

// keys returns the tensors that take block i's keys and values.
func (w *workspace) keys(b *model.Batch, i int) (k, v *tensor.Dense) {
	if b.Cache != nil {
		return b.Cache.K[i], b.Cache.V[i]
	}
	return w.cache.K[0], w.cache.V[0]
}
