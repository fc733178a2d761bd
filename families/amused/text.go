package amused

import (
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// promptHeads holds what all passes need of a prompt: keys and values of every attention over it. A
// prompt meets many passes, which need only its keys and values.
type promptHeads struct {
	rows     int         // of the text
	down, up []textHeads // two for each level
	layers   []textHeads
}

// textHeads are the keys and values of one attention over a text, [1, heads, rows, headDim] each.
type textHeads struct{ k, v *tensor.Dense }

// encodePrompt computes a prompt's keys and values.
func (m *Model) encodePrompt(p *model.Prompt) *promptHeads {
	c := &m.cfg
	b := m.b
	n := p.Rows
	states := b.New(n, c.TextWidth)
	text := b.New(n, c.Hidden)
	b.Write(states, 0, p.States)
	m.TextProj.Apply(b, text, states, n, backend.Identity) // [text rows, hidden]
	m.TextNorm.Apply(b, text, text, n)                     // [text rows, hidden]
	heads := &promptHeads{rows: n}
	for i := range m.Layers {
		heads.layers = append(heads.layers, m.projectHeads(&m.Layers[i].Text, m.self, text, n))
	}

	activated := b.New(n, c.Hidden)
	b.Gather(activated, text, nn.RowRange(0, n))
	b.Activate(activated, n, backend.SiLU) // [text rows, hidden]
	mapped := b.New(n, c.Width)
	heads.down = m.projectStage(&m.Down, text, activated, mapped, n)
	heads.up = m.projectStage(&m.Up, text, activated, mapped, n)
	return heads
}

// projectStage returns the keys and values of a stage's attentions, two for each level, for a text
// [rows, hidden] or, where they have a projection of their own, for the activated text. mapped is
// scratch for that projection [rows, width].
func (m *Model) projectStage(s *stage, text, activated, mapped *tensor.Dense,
	rows int) (heads []textHeads) {
	for i := range s.Text {
		k := &s.Text[i]
		input := text
		if m.cfg.Mapped {
			k.Mapper.Apply(m.b, mapped, activated, rows, backend.Identity) // [text rows, width]
			input = mapped
		}
		heads = append(heads, m.projectHeads(&k.Attn1, m.inner, input, rows),
			m.projectHeads(&k.Attn2, m.inner, input, rows))
	}
	return heads
}

// projectHeads returns the keys and values of an attention for rows of x [rows, width of its
// input].
func (m *Model) projectHeads(a *crossAttention, l attention.Layer, x *tensor.Dense,
	rows int) textHeads {
	heads := textHeads{
		k: m.b.New(1, l.Heads, rows, l.HeadDim),
		v: m.b.New(1, l.Heads, rows, l.HeadDim),
	}
	var buffer attention.Buffer // [rows, heads*headDim]
	buffer.Grow(m.b, rows, l.Heads, l.HeadDim)
	place := func(i int) (seq, pos int) { return 0, i }
	a.Key.Apply(m.b, buffer.T, x, rows, backend.Identity)
	buffer.Put(m.b, heads.k, rows, place)
	a.Value.Apply(m.b, buffer.T, x, rows, backend.Identity)
	buffer.Put(m.b, heads.v, rows, place)
	return heads
}

// attendText adds an attention over the texts of the pass's sequences: dst += out(attention(x)).
// Sequences with the same text are one call to the kernel. dst and x are [cells, width]; q and out
// are scratch of that shape, and out may be x. heads selects the attention's keys and values.
func (m *Model) attendText(a *crossAttention, l attention.Layer, dst, x, q, out *tensor.Dense,
	heads func(t *promptHeads) textHeads) {
	w := &m.w
	b := m.b
	n := w.rows.Len()
	a.Query.Apply(b, q, x, n, backend.Identity) // [cells, width]
	for _, g := range w.byText {
		text := heads(g.text)
		b.Attention(out, q, text.k, text.v, g.segs,
			backend.Heads{Heads: l.Heads, HeadDim: l.HeadDim, Keys: g.text.rows, BF16: l.BF16})
	}
	a.Out.AddTo(b, dst, out, n) // [cells, width]
}
