package generate

import (
	"math"

	"unmask/internal/philox"
)

// drawTokens draws the token of every chosen position. With a cache the positions of a step are
// drawn in stages (Hayakawa et al. 2025, section 4.1 and appendix "Partial caching"): the first
// from the full pass, each later one from a partial pass over all positions of the step, with the
// tokens of the stages before it in place and every other key and value from the full pass.
//
// If the device chose the positions, it has drawn the first stage already.
func (p *Pool) drawTokens(group []*member) error {
	stages := 0
	for _, m := range group {
		p.beginDraw(m)
		stages = max(stages, len(m.step.stages))
	}
	for stage := range stages {
		group = withoutFaults(group)
		if stage == 0 {
			p.sampleStage(group, stage)
			continue
		}
		err := p.tryGroup(group, func(group []*member) error { return p.refineStage(group, stage) })
		if err != nil {
			return err
		}
	}
	return nil
}

// beginDraw splits a member's positions into stages, unless the device has done that, and sets the
// top tokens of what is drawn already.
func (p *Pool) beginDraw(m *member) {
	switch {
	case !m.step.onDevice:
		m.splitStages()
		m.growPending()
		if m.step.opening.Tokens != nil {
			m.acceptSamplerTokens()
			p.setTop(m, 0, len(m.step.pending))
		}
	case len(m.step.stages) > 0:
		p.setTop(m, 0, m.step.stages[0])
	default: // the device drew all
		p.setTop(m, 0, len(m.step.pending))
	}
}

// growPending makes room for the tokens of the step's positions.
func (m *member) growPending() {
	s := &m.step
	for len(s.pending) < len(s.opening.Positions) {
		s.pending = append(s.pending, OpenedPosition{})
	}
}

// acceptSamplerTokens accepts tokens that the sampler itself drew.
func (m *member) acceptSamplerTokens() {
	s := &m.step
	for j, position := range s.opening.Positions {
		logP := math.NaN()
		if s.opening.LogP != nil {
			logP = s.opening.LogP[j]
		}
		s.pending[j] = OpenedPosition{Position: position, Token: s.opening.Tokens[j], LogP: logP}
	}
}

// splitStages divides the step's positions into stages, none of them empty. Stage j of c ends at
// |J_(n-1+j/(c+1))|, the schedule's value between the steps, or at equal parts if the sampler
// opened another number than the schedule's.
func (m *member) splitStages() {
	s := &m.step
	s.stages = s.stages[:0]
	s.drawnStages = 0
	count := len(s.opening.Positions)
	if count == 0 || s.opening.Tokens != nil {
		return
	}

	parts := m.Cache + 1
	alreadyOpen := s.size - len(s.masked)
	followsSchedule := !m.samplerPlans && count == s.quota
	last := 0
	for j := 1; j < parts; j++ {
		end := count * j / parts
		if followsSchedule {
			between := float64(s.step-1) + float64(j)/float64(parts)
			end = m.Schedule.At(between, s.steps, s.size) - alreadyOpen
		}
		if end > last && end < count {
			s.stages = append(s.stages, end)
			last = end
		}
	}
	s.stages = append(s.stages, count)
}

// stageStart returns the index in opening.Positions at which a stage begins.
func (m *member) stageStart(stage int) int {
	if stage == 0 {
		return 0
	}
	return m.step.stages[stage-1]
}

// refineStage makes a partial pass over the step's positions of every member that has this stage,
// with the tokens drawn so far in place, and draws the stage.
func (p *Pool) refineStage(group []*member, stage int) error {
	b := &p.pass.batch
	b.ReadRows = b.ReadRows[:0]
	p.pass.rows = p.pass.rows[:0]
	for _, m := range group {
		if stage >= len(m.step.stages) {
			continue
		}
		base := m.step.batchIndex * b.Length
		for j, position := range m.step.opening.Positions {
			row := int32(base + position)
			p.pass.rows = append(p.pass.rows, row)
			switch {
			case j < m.stageStart(stage): // drawn
				token := m.step.pending[j].Token
				b.Tokens[row] = token
				if m.Reuse != NoReuse {
					m.cached[position] = token
				}
			case j < m.step.stages[stage]:
				b.ReadRows = append(b.ReadRows, row)
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
	p.observePass()
	for _, m := range group {
		if stage < len(m.step.stages) {
			m.step.work.Partial += len(m.step.opening.Positions)
		}
	}
	p.sampleStage(group, stage)
	return nil
}

// sampleStage draws a stage of all members, in one call for each distinct exponent.
func (p *Pool) sampleStage(group []*member, stage int) {
	drawStage := func(list []*member) error { return p.drawStage(list, stage) }
	for _, m := range group {
		if !m.needsDraw(stage) {
			continue
		}
		p.callBuffer = p.callBuffer[:0]
		for _, o := range group {
			if o.needsDraw(stage) && o.drawPower() == m.drawPower() && o.sameMarginals(m) {
				p.callBuffer = append(p.callBuffer, o)
			}
		}
		for _, o := range p.runHead(p.callBuffer, drawStage) {
			p.setTop(o, o.stageStart(stage), o.step.stages[stage])
		}
	}
}

// needsDraw reports whether a stage of the member must still be drawn.
func (m *member) needsDraw(stage int) bool {
	return m.step.fault == nil && stage < len(m.step.stages) && m.step.drawnStages <= stage
}

// drawStage draws a stage of members that share one exponent.
func (p *Pool) drawStage(list []*member, stage int) error {
	h := &p.head
	length := p.pass.readBatch.Length
	h.rows = h.rows[:0]
	h.owner = h.owner[:0]
	for _, m := range list {
		for j := m.stageStart(stage); j < m.step.stages[stage]; j++ {
			h.rows = append(h.rows, int32(m.step.batchIndex*length+m.step.opening.Positions[j]))
			h.owner = append(h.owner, drawnToken{m, j})
		}
	}

	n := len(h.rows)
	h.draw.Power = list[0].drawPower()
	h.draw.Uniform = resizeBuffer(&h.uniform, n)
	h.draw.Token = resizeBuffer(&h.token, n)
	h.draw.LogP = resizeBuffer(&h.logP, n)
	for i, d := range h.owner {
		position := d.m.step.opening.Positions[d.index]
		h.draw.Uniform[i] = d.m.randomStream().Uniform(position, philox.Token)
	}
	if err := p.sampleRows(list[0], &h.draw); err != nil {
		return err
	}

	for i, d := range h.owner {
		s := &d.m.step
		s.work.Head++
		s.pending[d.index] = OpenedPosition{
			Position: s.opening.Positions[d.index],
			Token:    h.draw.Token[i],
			LogP:     h.draw.LogP[i],
			Stage:    stage,
		}
	}
	for _, m := range list {
		m.step.drawnStages = stage + 1
	}
	return nil
}
