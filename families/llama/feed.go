package llama

import (
	"context"

	"gorgonia.org/tensor"

	"unmask/model"
)

// Passes of models whose final tokens go through causally (model.Feeder), and what depends on
// positions in them: the scale of Nemotron-Labs-Diffusion's queries.

// buildFeeds makes the networks of Feed. They have the same weights, and differ in what a row sees.
func (m *Model) buildFeeds() {
	switch m.cfg.Causal {
	case model.NextToken:
		// Final tokens see those before them and predict the next one, as in an autoregressive model.
		causal := m.cfg
		causal.Block = 1
		causal.Shift = true

		// Masks that are filled, or drafted, see everything that is fed.
		whole := m.cfg
		whole.Block = 0

		draft := m.withConfig(whole)
		draft.drafts = true
		m.feeds = []*Model{
			model.Commit: m.withConfig(causal),
			model.Fill:   m.withConfig(whole),
			model.Draft:  draft,
		}
	case model.MasksLast:
		m.feeds = []*Model{model.Commit: m, model.Fill: m, model.Draft: m}
	}
}

// Feed implements model.Feeder.
func (m *Model) Feed(ctx context.Context, b *model.Batch, rows []int32,
	feeding model.Feeding) (model.Marginals, error) {
	return m.feeds[feeding].ComputeRows(ctx, b, rows)
}

// publicDenoiser returns the network that a loaded model shows. One that feeds masks last hides
// Refine and WithBlock: its keys and values depend on the order in which tokens were fed, so they
// are of no use to a partial pass over other rows.
func (m *Model) publicDenoiser() model.Denoiser {
	if m.cfg.Causal == model.MasksLast {
		return orderedModel{m}
	}
	return m
}

// orderedModel is a Model without Refine and WithBlock.
type orderedModel struct{ feeder }

// feeder has the methods that an orderedModel keeps.
type feeder interface {
	model.Feeder
	model.Locker
	model.Sized
}

// computeQueryScales sets work.queryScales to the scales of a pass's queries, which depend on their
// positions, less 1. It is empty if all scales are 1, so that short texts pay nothing.
func (m *Model) computeQueryScales(p *model.Pass) {
	w := m.work
	rope := &m.cfg.Rope
	w.queryScales = w.queryScales[:0]
	if rope.QueryBeta == 0 {
		return
	}
	scaled := false
	for i := range p.Len() {
		scale := rope.queryScale(p.Position(i))
		w.queryScales = append(w.queryScales, scale-1)
		scaled = scaled || scale != 1
	}
	if !scaled {
		w.queryScales = w.queryScales[:0]
	}
}

// splitHeads splits work.qkv [rows, (heads+2*kvHeads)*headDim] of a pass into heads, rotates them
// and stores keys and values: attention.Layer.SplitQKV, and the scale of the queries.
func (m *Model) splitHeads(p *model.Pass, keys, values *tensor.Dense) {
	w := m.work
	b := m.b
	m.layer.SplitQKV(b, w.q, keys, values, w.qkv, &p.Rows, p.Keys) // q: [rows, heads*headDim]
	if len(w.queryScales) == 0 {
		return
	}

	// q += (scale-1) * q, by way of a copy, because AddScaled reads rows of another tensor
	for len(w.rowNumbers) < p.Len() {
		w.rowNumbers = append(w.rowNumbers, int32(len(w.rowNumbers)))
	}
	rows := w.rowNumbers[:p.Len()]
	b.Gather(w.attended, w.q, rows)
	b.AddScaled(w.q, w.attended, rows, w.queryScales)
}
