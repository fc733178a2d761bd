package generate

import (
	"errors"
	"fmt"

	"unmask/model"
	"unmask/samplers"
)

// decide finds the positions that each member of the latest pass opens, with one call of the head
// for each distinct Need. It returns the members without a fault.
func (p *Pool) decide(group []*member) []*member {
	for _, m := range group {
		if m.step.need != (samplers.Need{}) && !m.step.quiet {
			p.rank(m)
		}
	}
	for _, m := range group {
		switch {
		case m.step.decided || m.step.fault != nil:
		case m.step.device:
			p.alike(group, m, func(o *member) bool { return o.step.device && o.sameRanking(m) })
			p.isolate(p.same, p.chooseOnDevice)
		case m.step.need != (samplers.Need{}):
			p.alike(group, m, func(o *member) bool {
				return !o.step.device && o.step.need == m.step.need && o.sameMarginals(m)
			})
			for _, o := range p.isolate(p.same, p.stats) {
				p.choose(o)
			}
		}
	}
	return healthy(group)
}

// alike sets same to the members of a group for which like is true, and marks them decided.
func (p *Pool) alike(group []*member, m *member, like func(*member) bool) {
	p.same = p.same[:0]
	for _, o := range group {
		if !o.step.decided && o.step.fault == nil && like(o) {
			o.step.decided = true
			p.same = append(p.same, o)
		}
	}
}

// isolate calls the head for members. If a row has no distribution, its member gets the fault and
// the call is repeated without it. isolate returns the remaining members.
func (p *Pool) isolate(list []*member, call func([]*member) error) []*member {
	for len(list) > 0 {
		err := call(list)
		if err == nil {
			break
		}
		row, ok := errors.AsType[*model.RowError](err)
		for _, m := range list {
			if !ok || int(row.Row)/p.pass.of.Length == m.step.row {
				p.blame(m, err)
			}
		}
		list = healthy(list)
	}
	return list
}

// choose calls a member's sampler. An error is the member's fault.
func (p *Pool) choose(m *member) {
	p.setView(m)
	p.head.show(&p.view, m)
	o, err := m.Sampler.Choose(&p.view)
	if err == nil && o.Second != nil && m.step.need == (samplers.Need{}) {
		err = errors.New("the sampler asks for a second pass, want a Need of the first")
	}
	switch m.step.opening = o; {
	case err != nil:
		p.blame(m, err)
	case o.Second != nil:
		if o.Second.Run == nil {
			p.keepTop(m)
		}
	default:
		p.settle(m)
	}
}

// settle checks what a member's sampler chose, and makes it belong to the member's language.
func (p *Pool) settle(m *member) {
	err := p.check(m)
	if err == nil && m.speech != nil {
		err = p.reconcile(m)
	}
	if err != nil {
		p.blame(m, err)
	}
}

// setView makes the view that of a member.
func (p *Pool) setView(m *member) {
	v := &p.view
	s := &m.step
	v.Tokens, v.Masked, v.Open = m.Tokens, s.masked, s.open
	v.OpenedLogP, v.State, v.Shape, v.EndTokens = m.past, m.state, m.shape, m.EndTokens
	v.CanCheckRun = m.runs && m.work != nil && m.work.wide == nil && m.network.checksRuns()
	v.MaskedBehind = s.behind(m.Tokens, m.free, m.mask)
	v.Step, v.Steps, v.Quota, v.FreeCount = s.n, s.of, s.quota, s.size
	v.Rand, v.Noise = samplers.Rand(m.stream()), samplers.ForOrder
	if v.LookAhead = nil; m.ahead {
		v.LookAhead = p.lookAhead
	}
	p.visited = m
}

// check returns an error for an opening that breaks the rules, before anything is drawn.
func (p *Pool) check(m *member) error {
	o, seen, stamp := &m.step.opening, p.head.seen, p.head.mark(m.step.masked)
	for j, at := range o.Positions {
		switch {
		case at < 0 || at >= len(m.Tokens):
			return fmt.Errorf("the sampler opens position %d, want 0 to %d", at, len(m.Tokens)-1)
		case m.Tokens[at] != p.spec.Mask:
			return fmt.Errorf("the sampler opens position %d, which is open", at)
		case seen[at] == -stamp:
			return fmt.Errorf("the sampler opens position %d twice", at)
		case seen[at] != stamp:
			return fmt.Errorf("the sampler opens position %d, which may not open at this step", at)
		case o.Tokens != nil && (len(o.Tokens) != len(o.Positions) || o.Tokens[j] < 0 ||
			int(o.Tokens[j]) >= p.spec.Outcomes):
			return fmt.Errorf("the sampler's tokens, want one of 0 to %d for each position",
				p.spec.Outcomes-1)
		}
		seen[at] = -stamp
	}
	if o.Tokens != nil && m.Cache > 0 {
		return fmt.Errorf("no cache with this sampler: it draws tokens itself")
	}
	for _, at := range o.Close {
		if at < 0 || at >= len(m.Tokens) || m.Tokens[at] == p.spec.Mask || m.start[at] != p.spec.Mask {
			return fmt.Errorf("the sampler closes position %d, want one that this run opened", at)
		}
	}
	if len(o.Replace) != len(o.Replacement) {
		return fmt.Errorf("the sampler replaces %d positions by %d tokens, want as many", len(o.Replace),
			len(o.Replacement))
	}
	for j, at := range o.Replace {
		token := o.Replacement[j]
		if at < 0 || at >= len(m.Tokens) || m.Tokens[at] == p.spec.Mask || m.start[at] != p.spec.Mask ||
			token < 0 || int(token) >= p.spec.Outcomes {
			return fmt.Errorf("the sampler puts token %d at position %d, want 0 to %d at one that this run "+
				"opened", token, at, p.spec.Outcomes-1)
		}
	}
	return m.loop.check()
}

// visit implements View.Visit for the visited member.
func (p *Pool) visit(positions []int, f func(i int, logits []float32)) error {
	m, h := p.visited, &p.head
	h.rows = h.rows[:0]
	stamp := h.mark(m.step.masked, m.step.open)
	for _, at := range positions {
		if at < 0 || at >= len(m.Tokens) || h.seen[at] != stamp {
			return fmt.Errorf("the sampler reads logits of position %d, want one of View.Masked or Open", at)
		}
		h.rows = append(h.rows, m.rowOf(m.step.row*p.pass.of.Length, at))
	}
	m.step.work.Head += len(positions)
	return p.marginals(m).Visit(h.rows, f)
}
