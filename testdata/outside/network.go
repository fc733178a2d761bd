package main

import (
	"cmp"
	"context"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// Glance is one layer of attention over tokens; the table that embeds them is the output head too.
type Glance struct {
	Table weights.Param `weight:"table"` // [outcomes+1, width], the mask last
	QKV   nn.Linear     `weight:"qkv"`

	b     backend.Backend
	table *tensor.Dense
	work  nn.Work
}

func init() {
	match := func(s *model.Source) bool { return s.HasTensor("table") && s.HasTensor("qkv.weight") }
	model.Register(model.Format{Name: "glance", Match: match, Load: load})
}

func load(src *model.Source, o model.Options) (*model.Loaded, error) {
	t, _ := src.Set.Get("table")
	n := t.Shape[0] - 1
	width := t.Shape[1]
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	table := weights.Param{Shape: t.Shape}
	qkv := nn.NewLinearNoBias(width, 3*width)
	m := &Glance{b: o.Backend, Table: table, QKV: qkv}
	if err := weights.Bind(m, src.Set, weights.BindOptions{}); err != nil {
		return nil, err
	}
	m.QKV.Load(l)
	net := &model.Network{
		Pass:      m.pass,
		Width:     width,
		ModelSpec: model.Spec{Shape: []int{64}, Outcomes: n, Mask: int32(n)},
		Head:      backend.Head{W: l.Matrix(&m.Table, n), Outcomes: n},
		Passes:    model.Passes{Backend: m.b, Layers: []kvcache.Layer{{Heads: 1, HeadDim: width}}},
	}
	m.table = l.Table(&m.Table)
	text, from, err := src.StartTokenizer("")()
	err = cmp.Or(err, l.Err())
	info := model.Info{Architecture: "glance", Tokenizer: from}
	return &model.Loaded{Denoiser: net, Kind: model.KindText, Tokenizer: text, Info: info}, err
}

func (m *Glance) pass(_ context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.work
	width := m.Table.Shape[1]
	w.Prepare(m.b, p.Len(), width, 1)
	m.b.Gather(w.X, m.table, p.Tokens)
	m.QKV.Apply(m.b, w.QKV, w.X, p.Len(), backend.Identity)
	k, v := p.KV(0)
	attention.Layer{Heads: 1, HeadDim: width}.Apply(m.b, w.H, w.Q, k, v, w.QKV, &p.Rows, p.Keys)
	return w.H, p, nil
}
