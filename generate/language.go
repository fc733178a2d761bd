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
	start := t.initial.startTokens
	if l.FirstPosition < 0 || l.FirstPosition > l.EndPosition || l.EndPosition > len(start) {
		return fmt.Errorf("the grammar's positions are %d to %d, want some of 0 to %d",
			l.FirstPosition, l.EndPosition-1, len(start)-1)
	}
	if len(l.Class) != spec.Outcomes {
		return fmt.Errorf("the grammar's vocabulary is %d tokens, want %d", len(l.Class),
			spec.Outcomes)
	}
	if err := t.CheckGrammar(spec); err != nil {
		return err
	}
	return l.Check(start, spec.Mask)
}

// CheckGrammar returns an error if a run of the recipe cannot follow a language.
//
// The sums over a language's texts need marginals of the whole text, at positions that stay where
// they are, and a token that is open must be in the text.
func (r *Recipe) CheckGrammar(spec model.Spec) error {
	drafts := samplers.Is[samplers.Proposer](r.Sampler)
	if samplers.Is[samplers.RunChecker](r.Sampler) {
		drafts = r.Reuse == Blocks
	}
	moves := samplers.Is[samplers.Resizer](r.Sampler) ||
		samplers.Is[samplers.Grower](r.Sampler) && spec.Growth != nil
	if r.Reuse != Causal && !drafts && !moves && r.Window == 0 {
		return nil
	}
	return &param.Error{Name: "grammar", Found: "given", Reason: param.Unsupported,
		Want: "none with reuse causal, a window or a sampler that drafts or changes the length"}
}

// sameMarginals reports whether one call of the head can compute for both members: the wrappers of
// marginals ask for the owner of each row, but which wrappers there are is decided for the call.
func (m *member) sameMarginals(o *member) bool {
	return m.Greedy == o.Greedy && m.isFiltered() == o.isFiltered() &&
		(m.grammarState == nil) == (o.grammarState == nil)
}

// newGrammarState returns what a member keeps of its language, nil without one.
func (m *member) newGrammarState(sums *constrain.SumCache) *constrain.Sequence {
	if m.Language == nil {
		return nil
	}
	return &constrain.Sequence{Language: m.Language, Mask: m.mask, Sums: sums}
}

// restartGrammar begins anew with the member's language, on a canvas that has grown.
func (m *member) restartGrammar(sums *constrain.SumCache) {
	former := m.grammarState
	if former == nil {
		return
	}
	former.Close()
	m.grammarState = m.newGrammarState(sums)
	m.grammarState.FilterOverruled = former.FilterOverruled // a count over the whole answer
}

// addGrammarRows adds the masked positions of a member's language that the pass computes. Unlike a
// sampler, a language reads also those that may not open in this step: what fits at one position
// depends on what is probable at all others.
func (p *Pool) addGrammarRows(b *model.Batch, m *member) {
	base := m.step.batchIndex * b.Length
	if m.step.partial {
		computed := p.pass.rows[len(p.pass.rows)-m.step.computedRows:]
		for _, row := range computed {
			if m.isGrammarMask(int(row) - base) {
				b.ReadRows = append(b.ReadRows, row)
			}
		}
		return
	}
	for position := range m.Tokens {
		if m.isGrammarMask(position) {
			b.ReadRows = append(b.ReadRows, int32(base+position))
		}
	}
}

// isGrammarMask reports whether a position is masked and one of the language's.
func (m *member) isGrammarMask(position int) bool {
	l := m.Language
	return position >= l.FirstPosition && position < l.EndPosition && m.Tokens[position] == m.mask
}

// observePass shows the latest pass to the languages of its sequences.
func (p *Pool) observePass() {
	b := p.pass.readBatch
	for i, m := range p.pass.owners {
		if m.grammarState != nil {
			tokens := b.Tokens[i*b.Length : i*b.Length+len(m.Tokens)]
			m.grammarState.BeginPass(tokens, p.computedPositions(i))
		}
	}
}

// letTextsGrow lets the texts of languages go on behind their canvas where, by the latest pass, it
// is more probable that they do not fit on it, and there is room and time for that. Such a text is
// longer than the canvas, and has a state at its end from which what is left to MaxLength is
// enough. All others fit, so that a text which does is the same whatever the bound.
func (p *Pool) letTextsGrow(group []*member) error {
	for _, m := range group {
		if m.growthAsked || !m.mayTextGrow() {
			continue
		}
		p.marginalsOf(m) // prepares p.constrained
		fit, err := p.constrained.FitProbability(m.step.batchIndex)
		if err != nil {
			return err
		}
		if fit >= 0.5 {
			continue
		}
		m.growthAsked = true
		if m.isGrowthAdmitted() {
			m.grammarState.GoOn(m.MaxLength - len(m.Sequence.Tokens))
		}
	}
	return nil
}

// mayTextGrow reports whether the text of a member's language may be longer than its canvas.
func (m *member) mayTextGrow() bool {
	l := m.Language
	length := len(m.Sequence.Tokens)
	end := length - m.network.spec.TailCount(m.Sequence.Tokens)
	return l != nil && l.Choices == nil && l.EndPosition == end && m.HasEnd != nil &&
		length < m.MaxLength
}

// shortestRest returns how many tokens the text of the member's language still needs, 0 without a
// language.
func (m *member) shortestRest() int {
	if m.Language == nil {
		return 0
	}
	return max(0, m.Language.ShortestRest(m.Tokens))
}

// computedPositions returns the positions that the latest pass computes of a sequence in it.
func (p *Pool) computedPositions(index int) (positions []int32) {
	b := p.pass.readBatch
	for _, row := range b.ReadRows {
		if int(row)/b.Length == index {
			positions = append(positions, row%int32(b.Length))
		}
	}
	return positions
}

// fitToGrammar makes tokens that a sampler chose by itself belong to the member's language: what
// does not fit with the rest is drawn from it, and a replacement that does not fit is left out.
func (p *Pool) fitToGrammar(m *member) error {
	o := &m.step.opening
	tokens := slices.Clone(m.Tokens)
	for _, position := range o.Close {
		tokens[position] = m.mask
	}
	placeIfAllowed := func(position int, token int32) (placed bool) {
		former := tokens[position]
		tokens[position] = token
		if m.grammarState.Allows(tokens) {
			return true
		}
		tokens[position] = former
		return false
	}

	for j := 0; j < len(o.Replace); {
		if placeIfAllowed(o.Replace[j], o.Replacement[j]) {
			j++
			continue
		}
		// The sampler's own lists stay as they are: it may keep them for its next step.
		o.Replace = slices.Delete(slices.Clone(o.Replace), j, j+1)
		o.Replacement = slices.Delete(slices.Clone(o.Replacement), j, j+1)
	}
	if o.Tokens == nil {
		return nil
	}

	// Most often all tokens fit together, which takes one call instead of one for each.
	together := slices.Clone(tokens)
	for j, position := range o.Positions {
		together[position] = o.Tokens[j]
	}
	if m.grammarState.Allows(together) {
		return nil
	}
	var misfits []int
	for j, position := range o.Positions {
		if !placeIfAllowed(position, o.Tokens[j]) {
			misfits = append(misfits, j)
		}
	}
	return p.redrawTokens(m, tokens, misfits)
}

// redrawTokens draws the tokens of some of a sampler's positions, by index in its opening, given
// the others, which are in tokens.
func (p *Pool) redrawTokens(m *member, tokens []int32, misfits []int) error {
	o := &m.step.opening
	m.grammarState.BeginPass(tokens, p.computedPositions(m.step.batchIndex))
	n := len(misfits)
	rows := make([]int32, n)
	d := model.Draw{
		Power:   1,
		Uniform: make([]float64, n),
		Token:   make([]int32, n),
		LogP:    make([]float64, n),
	}
	for i, j := range misfits {
		position := o.Positions[j]
		rows[i] = int32(m.step.batchIndex*p.pass.readBatch.Length + position)
		d.Uniform[i] = m.randomStream().Uniform(position, philox.Token)
	}
	if err := p.marginalsOf(m).Sample(rows, &d); err != nil {
		return err
	}
	m.step.work.Head += n
	for i, j := range misfits {
		o.Tokens[j] = d.Token[i]
		if o.LogP != nil {
			o.LogP[j] = d.LogP[i]
		}
	}
	return nil
}

// endsAt reports whether the token at a position is one that ends a text. Before a language's
// positions it is not: there it is a part of the prompt.
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
	state := l.Start
	for _, t := range m.Tokens[l.FirstPosition:position] {
		state = l.Next(state, t)
		if state < 0 {
			return false
		}
	}
	goesOn := func(e grammar.TokenEdge) bool { return e.To != l.End() && !l.IsPadding(e) }
	return !slices.ContainsFunc(l.Out(state), goesOn)
}
