package llama

import (
	"context"

	"gorgonia.org/tensor"

	"unmask/model"
)

// Passes of models whose final tokens go through causally (model.Feeder), and what depends on
// positions in them: the scale of Nemotron-Labs-Diffusion's queries.

// buildFeeds makes the networks of Feed: the same weights with other masks of attention.
func (m *Model) buildFeeds() {
	switch m.cfg.Causal {
	case model.NextToken:
		causal := m.cfg
		whole := m.cfg
		causal.Block = 1
		causal.Shift = true
		whole.Block = 0
		m.feeds = []*Model{model.Commit: m.withConfig(causal), model.Fill: m.withConfig(whole),
			model.Draft: m.withConfig(whole)}
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

// publicDenoiser returns what a loaded model shows: a network that feeds masks last has no other
// partial passes, because a row's keys and values are those of an order.
func (m *Model) publicDenoiser() model.Denoiser {
	if m.cfg.Causal == model.MasksLast {
		return orderedModel{m}
	}
	return m
}

// orderedModel is a Model without Refine and WithBlock.
type orderedModel struct{ feeder }

type feeder interface {
	model.Feeder
	model.Locker
	model.Sized
}

// computeQueryScales computes the scales of a pass's queries, which depend on their positions.
func (m *Model) computeQueryScales(p *model.Pass) {
	w := m.work
	w.queryScales = w.queryScales[:0]
	if r := &m.cfg.Rope; r.QueryBeta != 0 {
		far := false
		for i := range p.Len() {
			scale := r.queryScale(p.Position(i))
			w.queryScales = append(w.queryScales, scale-1)
			far = far || scale != 1
		}
		if !far {
			w.queryScales = w.queryScales[:0]
		}
	}
}

// splitHeads is attention.Layer.Split for the rows of a pass.
func (m *Model) splitHeads(p *model.Pass, k, v *tensor.Dense) {
	w := m.work
	b := m.b
	m.layer.SplitQKV(b, w.q, k, v, w.qkv, &p.Rows, p.Keys)
	if len(w.queryScales) > 0 {
		for len(w.rowNumbers) < p.Len() {
			w.rowNumbers = append(w.rowNumbers, int32(len(w.rowNumbers)))
		}
		same := w.rowNumbers[:p.Len()]
		b.Gather(w.attended, w.q, same)
		b.AddScaled(w.q, w.attended, same, w.queryScales)
	}
}
