package llama

import (
	"context"

	"gorgonia.org/tensor"

	"unmask/model"
)

// Passes of models whose final tokens go through causally (model.Feeder), and what depends on
// positions in them: the scale of Nemotron-Labs-Diffusion's queries.

// prepareFeeds makes the networks of Feed: the same weights with other masks of attention.
func (m *Model) prepareFeeds() {
	switch m.cfg.Causal {
	case model.NextToken:
		causal, whole := m.cfg, m.cfg
		causal.Block, causal.Shift = 1, true
		whole.Block = 0
		m.feeds = []*Model{model.Commit: m.with(causal), model.Fill: m.with(whole),
			model.Draft: m.with(whole)}
		m.feeds[model.Draft].drafts = true
	case model.MasksLast:
		m.feeds = []*Model{model.Commit: m, model.Fill: m, model.Draft: m}
	}
}

// Feed implements model.Feeder.
func (m *Model) Feed(ctx context.Context, b *model.Batch, rows []int32,
	how model.Feeding) (model.Marginals, error) {
	return m.feeds[how].ComputeRows(ctx, b, rows)
}

// denoiser returns what a loaded model shows: a network that feeds masks last has no other partial
// passes, because a row's keys and values are those of an order.
func (m *Model) denoiser() model.Denoiser {
	if m.cfg.Causal == model.MasksLast {
		return ordered{m}
	}
	return m
}

// ordered is a Model without Refine and WithBlock.
type ordered struct{ feeder }

type feeder interface {
	model.Feeder
	model.Locker
	model.Sized
}

// turn computes the scales of a pass's queries, which depend on their positions.
func (m *Model) turn(p *model.Pass) {
	w := m.work
	w.scales = w.scales[:0]
	if r := &m.cfg.Rope; r.QueryBeta != 0 {
		far := false
		for i := range p.Len() {
			scale := r.queryScale(p.Position(i))
			w.scales, far = append(w.scales, scale-1), far || scale != 1
		}
		if !far {
			w.scales = w.scales[:0]
		}
	}
}

// split is attention.Layer.Split for the rows of a pass.
func (m *Model) split(p *model.Pass, k, v *tensor.Dense) {
	w, b := m.work, m.b
	m.layer.SplitQKV(b, w.q, k, v, w.qkv, &p.Rows, p.Keys)
	if len(w.scales) > 0 {
		for len(w.same) < p.Len() {
			w.same = append(w.same, int32(len(w.same)))
		}
		same := w.same[:p.Len()]
		b.Gather(w.attended, w.q, same)
		b.AddScaled(w.q, w.attended, same, w.scales)
	}
}
