package generate

import (
	"errors"
	"slices"

	"unmask/model"
	"unmask/samplers"
)

// separate returns the members of a group for which is is false, and the others.
func separate(group []*member, is func(*member) bool) (no, yes []*member) {
	if !slices.ContainsFunc(group, is) {
		return group, nil
	}
	for _, m := range group {
		if is(m) {
			yes = append(yes, m)
		} else {
			no = append(no, m)
		}
	}
	return no, yes
}

// checkRun makes the second pass of members whose samplers ask for a Run: a partial pass over the
// block, in which a token sees those before it, with a shadow of each position of the run.
func (p *Pool) checkRun(group []*member) error {
	of, err := p.network(1)
	if err != nil {
		return err
	}
	b := &p.pass.batch
	p.pass.owners, p.pass.rows = append(p.pass.owners[:0], group...), p.pass.rows[:0]
	for _, m := range group {
		m.step.shadows = m.step.shadows[:0]
		for _, at := range m.step.opening.Second.Run {
			m.step.shadows = append(m.step.shadows, int32(at))
		}
	}
	p.fillBatch(b, group)
	b.Lengths = p.pass.lengths
	for i, m := range group {
		run := m.step.shadows
		m.step.row, m.step.shadowAt = i, int(run[len(run)-1])+1
		b.Lengths[i] = m.step.shadowAt + len(run)
		tokens := b.Tokens[i*b.Length:][:b.Length]
		copy(tokens, m.step.opening.Second.Tokens[:m.step.shadowAt])
		for at := m.step.shadowAt; at < len(tokens); at++ {
			tokens[at] = m.mask
		}
		before := len(p.pass.rows)
		p.pass.rows = m.appendRows(p.pass.rows, i*b.Length, m.loop.(*blockLoop).from, b.Lengths[i])
		m.step.fed = len(p.pass.rows) - before
		for _, at := range run {
			row, _ := m.shadowRow(i*b.Length, int(at))
			b.ReadRows = append(b.ReadRows, row)
		}
	}
	marginals, err := of.refiner.Refine(p.ctx, b, p.pass.rows)
	if err != nil {
		return err
	}
	p.setMarginals(b, marginals)
	for _, m := range group {
		m.step.checked = true
		m.step.work.Partial += m.step.fed
		m.step.work.Drafted += len(m.step.shadows)
		p.chooseAgain(m)
		m.step.work.Accepted += len(m.step.opening.Positions)
	}
	return p.draw(healthy(group))
}

// passAgain makes the second pass of members whose samplers ask for one, a full pass that keeps no
// keys and values, lets them choose, and draws their tokens.
func (p *Pool) passAgain(group []*member) error {
	b := &p.pass.batch
	p.pass.owners = append(p.pass.owners[:0], group...)
	p.fillBatch(b, group)
	b.Cache, b.Places, b.CacheReused = nil, nil, false
	for i, m := range group {
		m.step.row = i
		if m.speech != nil { // its tokens were drawn one by one
			m.speech.MaskForbidden(m.step.opening.Second.Tokens, m.initial.start)
		}
		p.reads(b, m)
		p.overlay(m, m.step.opening.Second.Tokens)
	}
	marginals, err := group[0].step.network.d.Forward(p.ctx, b)
	if err != nil {
		return err
	}
	p.setMarginals(b, marginals)
	p.listen()
	for _, m := range group {
		m.step.work.Full++
		p.chooseAgain(m)
	}
	return p.draw(healthy(group))
}

// overlay puts the tokens of a second pass into the batch.
func (p *Pool) overlay(m *member, tokens []int32) {
	b, base := &p.pass.batch, m.step.row*p.pass.batch.Length
	copy(b.Tokens[base:], tokens)
	masked := 0
	for at, t := range tokens {
		if t == p.spec.Mask {
			masked++
			if m.speech != nil {
				b.ReadRows = append(b.ReadRows, int32(base+at))
			}
		}
	}
	if m.clock == nil {
		b.Time[m.step.row] = float64(masked) / float64(len(tokens))
	}
}

// keepTop keeps the most probable tokens of the first pass at the positions that are not masked in
// the second.
func (p *Pool) keepTop(m *member) {
	if m.Top == 0 {
		return
	}
	var positions []int
	for _, at := range m.step.masked {
		if m.step.opening.Second.Tokens[at] != p.spec.Mask {
			positions = append(positions, at)
		}
	}
	m.step.earlier = map[int][]TopToken{}
	for i, likely := range p.likely(m, positions) {
		m.step.earlier[positions[i]] = likely
	}
}

// chooseAgain lets a member's sampler choose after its second pass.
func (p *Pool) chooseAgain(m *member) {
	p.setView(m)
	hideMeasures(&p.view)
	o, err := m.step.opening.Second.Choose(&p.view)
	if err == nil && o.Second != nil {
		err = errors.New("the sampler asks for a third pass, want two at most")
	}
	if m.step.opening = o; err != nil {
		p.blame(m, err)
		return
	}
	p.settle(m)
}

// lookAhead implements View.LookAhead: one pass over copies of the visited member, each with a
// candidate's tokens in place.
func (p *Pool) lookAhead(candidates []samplers.Opening) (entropy []float64, masked []int,
	err error) {
	m, b, length := p.visited, &p.ahead, len(p.visited.Tokens)
	*b = model.Batch{Size: len(candidates), Length: length, Tokens: b.Tokens[:0], Time: b.Time[:0],
		Steps: b.Steps[:0]}
	p.pass.owners = p.pass.owners[:0]
	var rows []int32
	masked = make([]int, len(candidates))
	for i, c := range candidates {
		p.pass.owners = append(p.pass.owners, m)
		b.Tokens = append(b.Tokens, m.Tokens...)
		tokens := b.Tokens[i*length:]
		for j, at := range c.Positions {
			tokens[at] = c.Tokens[j]
		}
		for at, t := range tokens {
			if t == p.spec.Mask && at < m.step.seen {
				rows = append(rows, int32(i*length+at))
				masked[i]++
			}
		}
		b.Time = append(b.Time, float64(m.left-len(c.Positions))/float64(length))
		b.Steps = append(b.Steps, model.Progress{N: m.N + 1, Steps: m.steps})
		if m.Condition != nil {
			b.Conditions = append(b.Conditions, m.Condition)
		}
	}
	m.step.work.Full += len(candidates)
	m.step.work.Head += len(rows)
	b.ReadRows = rows
	marginals, err := m.step.network.d.Forward(p.ctx, b)
	if err != nil {
		return nil, nil, err
	}
	p.setMarginals(b, marginals)
	each := make([]float64, len(rows))
	if err := p.plain(m).Stats(rows, &model.Stats{Entropy: each}); err != nil {
		return nil, nil, err
	}
	entropy = make([]float64, len(candidates))
	for i, row := range rows {
		entropy[int(row)/length] += each[i]
	}
	return entropy, masked, nil
}
