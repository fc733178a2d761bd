package generate

import (
	"math"

	"unmask/internal/philox"
)

// draw draws the token of every chosen position. With a cache the positions of a step are drawn in
// stages (Hayakawa et al. 2025, section 4.1 and appendix "Partial caching"): the first from the
// full pass, each later one from a partial pass over all positions of the step, with the tokens of
// the stages before it in place and every other key and value from the full pass.
//
// If the device chose the positions it has drawn the first stage already.
func (p *Pool) draw(group []*member) error {
	stages := 0
	for _, m := range group {
		if !m.step.device {
			m.split()
			m.ready()
			if m.step.opening.Tokens != nil {
				m.take()
				p.top(m, 0, len(m.step.pending))
			}
		} else if len(m.step.stages) > 0 {
			p.top(m, 0, m.step.stages[0])
		} else {
			p.top(m, 0, len(m.step.pending))
		}
		stages = max(stages, len(m.step.stages))
	}
	for p.stage = range stages {
		group = healthy(group)
		if p.stage == 0 {
			p.sample(group)
		} else if err := p.try(group, p.refine); err != nil {
			return err
		}
	}
	return nil
}

// ready makes room for the tokens of the step's positions.
func (m *member) ready() {
	s := &m.step
	for len(s.pending) < len(s.opening.Positions) {
		s.pending = append(s.pending, OpenedPosition{})
	}
}

// take accepts tokens that the sampler itself drew.
func (m *member) take() {
	s := &m.step
	for j, at := range s.opening.Positions {
		logP := math.NaN()
		if s.opening.LogP != nil {
			logP = s.opening.LogP[j]
		}
		s.pending[j] = OpenedPosition{Position: at, Token: s.opening.Tokens[j], LogP: logP}
	}
}

// split divides the step's positions into stages, none of them empty. Stage j of c ends at
// |J_(n-1+j/(c+1))|, the schedule's value between the steps, or at equal parts if the sampler
// opened another number than the schedule's.
func (m *member) split() {
	s := &m.step
	k := len(s.opening.Positions)
	s.stages, s.drawn = s.stages[:0], 0
	if k == 0 || s.opening.Tokens != nil {
		return
	}
	open, parts, done := s.size-len(s.masked), m.Cache+1, 0
	scheduled := !m.adapts && k == s.quota
	for j := 1; j < parts; j++ {
		end := k * j / parts
		if scheduled {
			end = m.Schedule.At(float64(s.n-1)+float64(j)/float64(parts), s.of, s.size) - open
		}
		if end > done && end < k {
			s.stages = append(s.stages, end)
			done = end
		}
	}
	s.stages = append(s.stages, k)
}

// first returns the index in opening.Positions at which a stage begins.
func (m *member) first(stage int) int {
	if stage == 0 {
		return 0
	}
	return m.step.stages[stage-1]
}

// refine makes a partial pass over the step's positions of every member with another stage, with
// the tokens drawn so far in place, and draws that stage.
func (p *Pool) refine(group []*member) error {
	b := &p.pass.batch
	p.pass.rows, b.ReadRows = p.pass.rows[:0], b.ReadRows[:0]
	for _, m := range group {
		if p.stage >= len(m.step.stages) {
			continue
		}
		base := m.step.row * b.Length
		for j, at := range m.step.opening.Positions {
			p.pass.rows = append(p.pass.rows, int32(base+at))
			if j < m.first(p.stage) {
				b.Tokens[base+at] = m.step.pending[j].Token
				if m.Reuse != NoReuse {
					m.cached[at] = m.step.pending[j].Token
				}
			} else if j < m.step.stages[p.stage] {
				b.ReadRows = append(b.ReadRows, int32(base+at))
			}
		}
	}
	if len(p.pass.rows) == 0 {
		return nil
	}
	marginals, err := group[0].step.network.refiner.Refine(p.ctx, b, p.pass.rows)
	if err != nil {
		return err
	}
	p.setMarginals(b, marginals)
	p.listen()
	for _, m := range group {
		if p.stage < len(m.step.stages) {
			m.step.work.Partial += len(m.step.opening.Positions)
		}
	}
	p.sample(group)
	return nil
}

// sample draws a stage of all members, in one call for each distinct exponent.
func (p *Pool) sample(group []*member) {
	for _, m := range group {
		if !p.draws(m) {
			continue
		}
		p.same = p.same[:0]
		for _, o := range group {
			if p.draws(o) && o.power() == m.power() && o.sameMarginals(m) {
				p.same = append(p.same, o)
			}
		}
		for _, o := range p.isolate(p.same, p.drawStage) {
			p.top(o, o.first(p.stage), o.step.stages[p.stage])
		}
	}
}

// draws reports whether the member's current stage must still be drawn.
func (p *Pool) draws(m *member) bool {
	return m.step.fault == nil && p.stage < len(m.step.stages) && m.step.drawn <= p.stage
}

// drawStage draws the stage of members that share one exponent.
func (p *Pool) drawStage(list []*member) error {
	h, length := &p.head, p.pass.of.Length
	h.rows, h.owner = h.rows[:0], h.owner[:0]
	for _, m := range list {
		for j := m.first(p.stage); j < m.step.stages[p.stage]; j++ {
			h.rows = append(h.rows, int32(m.step.row*length+m.step.opening.Positions[j]))
			h.owner = append(h.owner, drawn{m, j})
		}
	}
	n := len(h.rows)
	h.draw.Power = list[0].power()
	h.draw.Uniform, h.draw.Token, h.draw.LogP = grow(&h.uniform, n), grow(&h.token, n),
		grow(&h.logP, n)
	for i, d := range h.owner {
		h.draw.Uniform[i] = d.m.stream().Uniform(d.m.step.opening.Positions[d.index], philox.Token)
	}
	if err := p.sampleRows(list[0], &h.draw); err != nil {
		return err
	}
	for i, d := range h.owner {
		s := &d.m.step
		s.work.Head++
		s.pending[d.index] = OpenedPosition{Position: s.opening.Positions[d.index],
			Token: h.draw.Token[i],
			LogP:  h.draw.LogP[i], Stage: p.stage}
	}
	for _, m := range list {
		m.step.drawn = p.stage + 1
	}
	return nil
}
