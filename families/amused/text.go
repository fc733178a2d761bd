package amused

import (
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// promptHeads holds what all passes need of a prompt: keys and values of every attention over it,
// [1, heads, rows, headDim] each.
type promptHeads struct {
	rows     int
	down, up []textHeads // two for each level
	layers   []textHeads
}

type textHeads struct{ k, v *tensor.Dense }

// encodePrompt computes a prompt's keys and values.
func (m *Model) encodePrompt(p *model.Prompt) *promptHeads {
	c := &m.cfg
	b := m.b
	n := p.Rows
	states := b.New(n, c.TextWidth)
	t := b.New(n, c.Hidden)
	b.Write(states, 0, p.States)
	m.TextProj.Apply(b, t, states, n, backend.Identity)
	m.TextNorm.Apply(b, t, t, n)
	out := &promptHeads{rows: n}
	for i := range m.Layers {
		out.layers = append(out.layers, m.projectHeads(&m.Layers[i].Text, m.self, t, n))
	}
	swished := b.New(n, c.Hidden)
	mapped := b.New(n, c.Width)
	b.Gather(swished, t, nn.RowRange(0, n))
	b.Activate(swished, n, backend.SiLU)
	for _, s := range []struct {
		of *stage
		to *[]textHeads
	}{{&m.Down, &out.down}, {&m.Up, &out.up}} {
		for i := range s.of.Text {
			k := &s.of.Text[i]
			from := t
			if c.Mapped {
				k.Mapper.Apply(b, mapped, swished, n, backend.Identity)
				from = mapped
			}
			*s.to = append(*s.to, m.projectHeads(&k.Attn1, m.inner, from, n),
				m.projectHeads(&k.Attn2, m.inner, from, n))
		}
	}
	return out
}

// projectHeads returns the keys and values for rows of x.
func (m *Model) projectHeads(a *crossAttention, l attention.Layer, x *tensor.Dense,
	rows int) textHeads {
	t := textHeads{m.b.New(1, l.Heads, rows, l.HeadDim), m.b.New(1, l.Heads, rows, l.HeadDim)}
	var f attention.Buffer
	f.Grow(m.b, rows, l.Heads, l.HeadDim)
	place := func(i int) (seq, pos int) { return 0, i }
	a.Key.Apply(m.b, f.T, x, rows, backend.Identity)
	f.Put(m.b, t.k, rows, place)
	a.Value.Apply(m.b, f.T, x, rows, backend.Identity)
	f.Put(m.b, t.v, rows, place)
	return t
}

// attendText adds an attention over the texts of the pass's sequences: dst += out(attention(x)).
func (m *Model) attendText(a *crossAttention, l attention.Layer, dst, x, q, o *tensor.Dense,
	of func(t *promptHeads) textHeads) {
	w := &m.w
	b := m.b
	n := m.w.rows.Len()
	a.Query.Apply(b, q, x, n, backend.Identity)
	for _, g := range w.byText {
		t := of(g.text)
		b.Attention(o, q, t.k, t.v, g.segs,
			backend.Heads{Heads: l.Heads, HeadDim: l.HeadDim, Keys: g.text.rows, BF16: l.BF16})
	}
	a.Out.AddTo(b, dst, o, n)
}
