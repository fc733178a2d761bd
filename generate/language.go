package generate

import (
	"fmt"
	"slices"

	"unmask/constrain"
	"unmask/grammar"
	"unmask/internal/philox"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// checkLanguage returns an error if no sequence can belong to the task's language.
func (t *task) checkLanguage(spec model.Spec) error {
	l := t.Language
	if l == nil {
		return nil
	}
	if length := len(t.initial.start); l.FirstPosition < 0 || l.FirstPosition > l.EndPosition ||
		l.EndPosition > length {
		return fmt.Errorf("the grammar's positions are %d to %d, want some of 0 to %d", l.FirstPosition, l.EndPosition-1,
			length-1)
	}
	if len(l.Class) != spec.Outcomes {
		return fmt.Errorf("the grammar's vocabulary is %d tokens, want %d", len(l.Class),
			spec.Outcomes)
	}
	if err := t.CheckGrammar(spec); err != nil {
		return err
	}
	return l.Check(t.initial.start, spec.Mask)
}

// CheckGrammar returns an error if a run of the recipe cannot follow a language.
func (r *Recipe) CheckGrammar(spec model.Spec) error {
	drafts := samplers.Is[samplers.Proposer](r.Sampler)
	if samplers.Is[samplers.RunChecker](r.Sampler) {
		drafts = r.Reuse == Blocks
	}
	if r.Reuse == Causal || drafts || samplers.Is[samplers.Resizer](r.Sampler) ||
		samplers.Is[samplers.Grower](r.Sampler) && spec.Growth != nil || r.Window > 0 {
		return &param.Error{Name: "grammar", Found: "given", Reason: param.Unsupported,
			Want: "none with reuse causal, a window or a sampler that drafts or changes the length"}
	}
	return nil
}

// sameMarginals reports whether one call can compute for both members.
func (m *member) sameMarginals(o *member) bool {
	return m.Greedy == o.Greedy && m.filtered() == o.filtered() &&
		(m.speech == nil) == (o.speech == nil)
}

// newSpeech returns what a member keeps of its language, nil without one.
func (m *member) newSpeech(sums *constrain.SumCache) *constrain.Sequence {
	if m.Language == nil {
		return nil
	}
	return &constrain.Sequence{Language: m.Language, Mask: m.mask, Sums: sums,
		Uniform: func(position, draw int) float64 {
			words := m.stream().Words(position, philox.Unseen, draw)
			return (float64(words[0]) + 0.5) / (1 << 32)
		}}
}

// readsLanguage adds the masked positions of a member's language that the pass computes.
func (p *Pool) readsLanguage(b *model.Batch, m *member) {
	base := int32(m.step.row * b.Length)
	add := func(row int32) {
		at := int(row - base)
		if at >= m.Language.FirstPosition && at < m.Language.EndPosition && m.Tokens[at] == m.mask {
			b.ReadRows = append(b.ReadRows, row)
		}
	}
	if m.step.partial {
		for _, row := range p.pass.rows[len(p.pass.rows)-m.step.fed:] {
			add(row)
		}
		return
	}
	for at := range m.Tokens {
		add(base + int32(at))
	}
}

// listen shows the latest pass to the languages of its sequences.
func (p *Pool) listen() {
	b := p.pass.of
	for i, m := range p.pass.owners {
		if m.speech != nil {
			m.speech.BeginPass(b.Tokens[i*b.Length:i*b.Length+len(m.Tokens)], p.fresh(i))
		}
	}
}

// fresh returns the positions that the latest pass computes of a sequence in it.
func (p *Pool) fresh(index int) (positions []int32) {
	b := p.pass.of
	for _, row := range b.ReadRows {
		if int(row)/b.Length == index {
			positions = append(positions, row%int32(b.Length))
		}
	}
	return positions
}

// reconcile makes tokens that a sampler chose by itself belong to the member's language: what does
// not fit with the rest is drawn from it, and a replacement that does not fit is left out.
func (p *Pool) reconcile(m *member) error {
	o := &m.step.opening
	tokens := slices.Clone(m.Tokens)
	for _, at := range o.Close {
		tokens[at] = m.mask
	}
	put := func(at int, token int32) bool {
		before := tokens[at]
		tokens[at] = token
		if m.speech.Allows(tokens) {
			return true
		}
		tokens[at] = before
		return false
	}
	for j := 0; j < len(o.Replace); {
		if put(o.Replace[j], o.Replacement[j]) {
			j++
			continue
		}
		o.Replace = slices.Delete(slices.Clone(o.Replace), j, j+1)
		o.Replacement = slices.Delete(slices.Clone(o.Replacement), j, j+1)
	}
	if o.Tokens == nil {
		return nil
	}
	together := slices.Clone(tokens)
	for j, at := range o.Positions {
		together[at] = o.Tokens[j]
	}
	if m.speech.Allows(together) {
		return nil
	}
	var again []int
	for j, at := range o.Positions {
		if !put(at, o.Tokens[j]) {
			again = append(again, j)
		}
	}
	return p.drawAgain(m, tokens, again)
}

// drawAgain draws the tokens of a sampler's positions, by index in its opening, given the others.
func (p *Pool) drawAgain(m *member, tokens []int32, again []int) error {
	b, o := p.pass.of, &m.step.opening
	m.speech.BeginPass(tokens, p.fresh(m.step.row))
	n := len(again)
	d := model.Draw{Power: 1, Uniform: make([]float64, n), Token: make([]int32, n),
		LogP: make([]float64, n)}
	rows := make([]int32, n)
	for k, j := range again {
		rows[k] = int32(m.step.row*b.Length + o.Positions[j])
		d.Uniform[k] = m.stream().Uniform(o.Positions[j], philox.Token)
	}
	if err := p.marginals(m).Sample(rows, &d); err != nil {
		return err
	}
	m.step.work.Head += n
	for k, j := range again {
		if o.Tokens[j] = d.Token[k]; o.LogP != nil {
			o.LogP[j] = d.LogP[k]
		}
	}
	return nil
}

// endsAt reports whether the token at a position is one that ends a text. Before a language's
// positions it is not.
func (m *member) endsAt(position int, ends []int32) bool {
	return slices.Contains(ends, m.Tokens[position]) &&
		(m.Language == nil || position >= m.Language.FirstPosition)
}

// mustEnd reports whether the member's language has nothing but the end at a position. Everything
// before it is open.
func (m *member) mustEnd(position int) bool {
	l := m.Language
	if l == nil || l.End() < 0 || position < l.FirstPosition || position >= l.EndPosition {
		return false
	}
	s := l.Start
	for _, t := range m.Tokens[l.FirstPosition:position] {
		if s = l.Next(s, t); s < 0 {
			return false
		}
	}
	return !slices.ContainsFunc(l.Out(s), func(e grammar.TokenEdge) bool { return e.To != l.End() })
}
