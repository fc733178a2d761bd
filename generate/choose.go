package generate

import (
	"errors"
	"fmt"

	"unmask/model"
	"unmask/samplers"
)

// chooseOpenings finds the positions that each member of the latest pass opens, with one call of
// the head for each distinct Need. It returns the members without a fault.
func (p *Pool) chooseOpenings(group []*member) []*member {
	for _, m := range group {
		if m.step.need != (samplers.Need{}) && !m.step.skipsSampler {
			p.prepareRanking(m)
		}
	}
	for _, m := range group {
		if m.step.isDecided || m.step.fault != nil { // perhaps with an earlier member that is like it
			continue
		}
		if m.step.onDevice {
			like := p.selectLike(group, func(o *member) bool {
				return o.step.onDevice && o.sameRanking(m)
			})
			p.runHead(like, p.chooseOnDevice)
			continue
		}
		if m.step.need == (samplers.Need{}) {
			continue
		}
		like := p.selectLike(group, func(o *member) bool {
			return !o.step.onDevice && o.step.need == m.step.need && o.sameMarginals(m)
		})
		for _, o := range p.runHead(like, p.computeNeeds) {
			p.callSampler(o)
		}
	}
	return withoutFaults(group)
}

// selectLike returns the undecided members of a group for which like is true, and marks them
// decided. The result is valid until the next call.
func (p *Pool) selectLike(group []*member, like func(*member) bool) []*member {
	p.callBuffer = p.callBuffer[:0]
	for _, m := range group {
		if !m.step.isDecided && m.step.fault == nil && like(m) {
			m.step.isDecided = true
			p.callBuffer = append(p.callBuffer, m)
		}
	}
	return p.callBuffer
}

// runHead calls the output head for members and returns those that have a distribution.
//
// Sequences of unrelated clients share one call. A row of NaN would fail the call for all of them,
// so the member that owns the row is marked as failed and the call is repeated for the rest: one
// client's bad weights or banned vocabulary must not reach another's answer.
func (p *Pool) runHead(list []*member, call func([]*member) error) []*member {
	for len(list) > 0 {
		err := call(list)
		if err == nil {
			break
		}
		row, ok := errors.AsType[*model.RowError](err)
		for _, m := range list {
			if !ok || int(row.Row)/p.pass.readBatch.Length == m.step.batchIndex {
				p.setFault(m, err)
			}
		}
		list = withoutFaults(list)
	}
	return list
}

// callSampler calls a member's sampler. An error is the member's fault.
func (p *Pool) callSampler(m *member) {
	p.setView(m)
	p.head.fillView(&p.view, m)
	opening, err := m.Sampler.Choose(&p.view)
	if err == nil && opening.Second != nil && m.step.need == (samplers.Need{}) {
		err = errors.New("the sampler asks for a second pass, want a Need of the first")
	}
	m.step.opening = opening
	switch {
	case err != nil:
		p.setFault(m, err)
	case opening.Second == nil:
		p.acceptOpening(m)
	case opening.Second.Run == nil:
		p.keepFirstTop(m)
	}
}

// acceptOpening checks what a member's sampler chose, and makes it belong to the member's language.
func (p *Pool) acceptOpening(m *member) {
	err := p.checkOpening(m)
	if err == nil && m.grammarState != nil {
		err = p.fitToGrammar(m)
	}
	if err != nil {
		p.setFault(m, err)
	}
}

// setView makes the view that of a member. Measures of the marginals are set by fillView.
func (p *Pool) setView(m *member) {
	p.viewed = m
	v := &p.view
	s := &m.step
	v.Tokens = m.Tokens
	v.Masked = s.masked
	v.Open = s.open
	v.OpenedLogP = m.past
	v.State = m.samplerState
	v.Shape = m.shape
	v.EndTokens = m.EndTokens
	v.CanCheckRun = m.checksRuns && m.blockPlan != nil && m.blockPlan.wide == nil &&
		m.network.checksRuns()
	v.MaskedBehind = s.countBehind(m.Tokens, m.free, m.mask)
	v.Step = s.step
	v.Steps = s.steps
	v.Quota = s.quota
	v.FreeCount = s.size
	v.BlockFrom, v.BlockTo = s.blockBounds(m.free)
	v.Rand = samplers.Rand(m.randomStream())
	v.Noise = samplers.ForOrder
	v.LookAhead = nil
	if m.looksAhead {
		v.LookAhead = p.lookAhead
	}
}

// checkOpening returns an error for an opening that breaks the rules, before anything is drawn.
// Samplers of other modules run in this loop too, so nothing that they return is trusted.
func (p *Pool) checkOpening(m *member) error {
	if err := p.checkPositions(m); err != nil {
		return err
	}
	o := &m.step.opening
	if o.Tokens != nil && m.Cache > 0 {
		return fmt.Errorf("no cache with this sampler: it draws tokens itself")
	}
	for _, position := range o.Close {
		if !p.mayChange(m, position) {
			return fmt.Errorf("the sampler closes position %d, want one that this run opened and that is "+
				"not settled", position)
		}
	}
	if len(o.Replace) != len(o.Replacement) {
		return fmt.Errorf("the sampler replaces %d positions by %d tokens, want as many",
			len(o.Replace), len(o.Replacement))
	}
	for j, position := range o.Replace {
		token := o.Replacement[j]
		if !p.mayChange(m, position) || token < 0 || int(token) >= p.spec.Outcomes {
			return fmt.Errorf("the sampler puts token %d at position %d, want 0 to %d at one that this "+
				"run opened and that is not settled", token, position, p.spec.Outcomes-1)
		}
	}
	return m.loop.checkOpening()
}

// checkPositions returns an error for positions that may not open, and for tokens that are not the
// model's.
func (p *Pool) checkPositions(m *member) error {
	o := &m.step.opening
	seen := p.head.seen
	stamp := p.head.mark(m.step.masked) // -stamp marks those of them that the opening named before
	for j, position := range o.Positions {
		switch {
		case position < 0 || position >= len(m.Tokens):
			return fmt.Errorf("the sampler opens position %d, want 0 to %d", position, len(m.Tokens)-1)
		case m.Tokens[position] != p.spec.Mask:
			return fmt.Errorf("the sampler opens position %d, which is open", position)
		case seen[position] == -stamp:
			return fmt.Errorf("the sampler opens position %d twice", position)
		case seen[position] != stamp:
			return fmt.Errorf("the sampler opens position %d, which may not open at this step", position)
		case o.Tokens != nil && (len(o.Tokens) != len(o.Positions) || o.Tokens[j] < 0 ||
			int(o.Tokens[j]) >= p.spec.Outcomes):
			return fmt.Errorf("the sampler's tokens, want one of 0 to %d for each position",
				p.spec.Outcomes-1)
		}
		seen[position] = -stamp
	}
	return nil
}

// mayChange reports whether a sampler may close a position or replace its token: the run has opened
// it, and it is not settled.
func (p *Pool) mayChange(m *member, position int) bool {
	return position >= m.Settled && position < len(m.Tokens) && m.Tokens[position] != p.spec.Mask &&
		m.startTokens[position] == p.spec.Mask
}

// visitLogits implements View.Visit for the viewed member.
func (p *Pool) visitLogits(positions []int, f func(i int, logits []float32)) error {
	m := p.viewed
	h := &p.head
	h.rows = h.rows[:0]
	stamp := h.mark(m.step.masked, m.step.open)
	base := m.step.batchIndex * p.pass.readBatch.Length
	for _, position := range positions {
		if position < 0 || position >= len(m.Tokens) || h.seen[position] != stamp {
			return fmt.Errorf("the sampler reads logits of position %d, want one of View.Masked or Open",
				position)
		}
		h.rows = append(h.rows, m.rowOf(base, position))
	}
	m.step.work.Head += len(positions)
	return p.marginalsOf(m).Visit(h.rows, f)
}
