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
		if !m.device {
			m.split()
			m.ready()
			if m.opening.Tokens != nil {
				m.take()
			}
		}
		stages = max(stages, len(m.ends))
	}
	for p.stage = range stages {
		group = well(group)
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
	for len(m.pending) < len(m.opening.Positions) {
		m.pending = append(m.pending, Opened{})
	}
}

// take accepts tokens that the sampler itself drew.
func (m *member) take() {
	for j, at := range m.opening.Positions {
		logP := math.NaN()
		if m.opening.LogP != nil {
			logP = m.opening.LogP[j]
		}
		m.pending[j] = Opened{Position: at, Token: m.opening.Tokens[j], LogP: logP}
	}
}

// split divides the step's positions into stages, none of them empty. Stage j of c ends at
// |J_(n-1+j/(c+1))|, the schedule's value between the steps, or at equal parts if the sampler
// opened another number than the schedule's.
func (m *member) split() {
	k := len(m.opening.Positions)
	m.ends, m.drawn = m.ends[:0], 0
	if k == 0 || m.opening.Tokens != nil {
		return
	}
	open, parts, done := m.span()-len(m.masked), m.Cache+1, 0
	scheduled := !m.adapts && k == m.quota()
	for j := 1; j < parts; j++ {
		end := k * j / parts
		if scheduled {
			end = m.Schedule.At(float64(m.step-1)+float64(j)/float64(parts), m.of, m.span()) - open
		}
		if end > done && end < k {
			m.ends = append(m.ends, end)
			done = end
		}
	}
	m.ends = append(m.ends, k)
}

// first returns the index in opening.Positions at which a stage begins.
func (m *member) first(stage int) int {
	if stage == 0 {
		return 0
	}
	return m.ends[stage-1]
}

// refine makes a partial pass over the step's positions of every member with another stage, with
// the tokens drawn so far in place, and draws that stage.
func (p *Pool) refine(group []*member) error {
	b := &p.pass.batch
	p.pass.rows, b.Read = p.pass.rows[:0], b.Read[:0]
	for _, m := range group {
		if p.stage >= len(m.ends) {
			continue
		}
		base := m.row * b.Length
		for j, at := range m.opening.Positions {
			p.pass.rows = append(p.pass.rows, int32(base+at))
			if j < m.first(p.stage) {
				b.Tokens[base+at] = m.pending[j].Token
				if m.Reuse != NoReuse {
					m.cache.tokens[at] = m.pending[j].Token
				}
			} else if j < m.ends[p.stage] {
				b.Read = append(b.Read, int32(base+at))
			}
		}
	}
	if len(p.pass.rows) == 0 {
		return nil
	}
	marginals, err := group[0].network.refiner.Refine(p.ctx, b, p.pass.rows)
	if err != nil {
		return err
	}
	p.use(b, marginals)
	for _, m := range group {
		if p.stage < len(m.ends) {
			m.work.Partial += len(m.opening.Positions)
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
			if p.draws(o) && o.power() == m.power() && o.filtered() == m.filtered() {
				p.same = append(p.same, o)
			}
		}
		p.isolate(p.same, p.drawStage)
	}
}

// draws reports whether the member's current stage must still be drawn.
func (p *Pool) draws(m *member) bool {
	return m.fault == nil && p.stage < len(m.ends) && m.drawn <= p.stage
}

// drawStage draws the stage of members that share one exponent.
func (p *Pool) drawStage(list []*member) error {
	h, length := &p.head, p.pass.of.Length
	h.rows, h.owner = h.rows[:0], h.owner[:0]
	for _, m := range list {
		for j := m.first(p.stage); j < m.ends[p.stage]; j++ {
			h.rows = append(h.rows, int32(m.row*length+m.opening.Positions[j]))
			h.owner = append(h.owner, drawn{m, j})
		}
	}
	n := len(h.rows)
	h.draw.Power = list[0].power()
	h.draw.Uniform, h.draw.Token, h.draw.LogP = grow(&h.uniform, n), grow(&h.token, n),
		grow(&h.logP, n)
	for i, d := range h.owner {
		h.draw.Uniform[i] = d.m.stream().Uniform(d.m.opening.Positions[d.index], philox.Token)
	}
	if err := p.marginals(list[0]).Sample(h.rows, &h.draw); err != nil {
		return err
	}
	for i, d := range h.owner {
		d.m.work.Head++
		d.m.pending[d.index] = Opened{Position: d.m.opening.Positions[d.index], Token: h.draw.Token[i],
			LogP: h.draw.LogP[i], Stage: p.stage}
	}
	for _, m := range list {
		m.drawn = p.stage + 1
	}
	return nil
}
