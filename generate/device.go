package generate

import (
	"slices"

	"unmask/backend"
	"unmask/samplers"
)

// choice is the memory for choices that a device makes.
type choice struct {
	backend.Choice

	// order is the inverse of the ranking's order: for each position, its rank.
	order []int32
}

// prepareRanking reports whether the device of the latest pass can choose for a member, and sets
// the member's ranking if so. Before the first pass the host chooses, with the same result.
//
// A device ranks and draws by the logits as the network left them. So the host chooses where a
// filter or a grammar changes them, and where a draw takes the most probable token.
func (p *Pool) prepareRanking(m *member) bool {
	s := &m.step
	s.onDevice = false
	if p.pass.chooser == nil || s.causal || m.isFiltered() || m.grammarState != nil || m.Greedy {
		return false
	}
	if len(s.masked) == 0 || len(s.masked) > backend.ChoiceGroup {
		return false
	}
	ranking, ok := samplers.RankingOf(m.Sampler, s.step, s.steps, m.shape)
	s.ranking = ranking.Simplify(s.quota)
	s.onDevice = ok
	return ok
}

// sameRanking reports whether a device can choose for both members in one call.
func (m *member) sameRanking(o *member) bool {
	if m.Seed != o.Seed || m.N != o.N || m.step.need.Draw != o.step.need.Draw {
		return false
	}
	a, b := &m.step.ranking, &o.step.ranking
	if a.Measures != b.Measures || a.Share != b.Share || a.Beta != b.Beta || a.Noise != b.Noise ||
		a.Power != b.Power || len(a.Order) != len(b.Order) {
		return false
	}
	// Most members have the same order in the same memory.
	return len(a.Order) == 0 || &a.Order[0] == &b.Order[0] || slices.Equal(a.Order, b.Order)
}

// chooseOnDevice has the device choose the positions of members with one ranking, and draw the
// tokens of their first stage. The device ranks, draws and returns only the results, so that the
// marginals are never copied to the host.
func (p *Pool) chooseOnDevice(list []*member) error {
	c := &p.choice
	p.listCandidates(list)
	chosen, drawn := c.Counts()
	c.Row = resizeBuffer(&c.Row, chosen)
	c.Token = resizeBuffer(&c.Token, drawn)
	c.LogP = resizeBuffer(&c.LogP, drawn)
	if err := p.pass.chooser.Choose(p.head.rows, &c.Choice); err != nil {
		return err
	}

	need := list[0].step.need
	// The results of all groups lie one after the other; each member takes its own off the front.
	rows, tokens, logP := c.Row, c.Token, c.LogP
	for i, m := range list {
		o := &m.step.opening
		g := c.Groups[i]
		for j := range o.Positions {
			o.Positions[j] = int(c.Position[rows[j]])
		}
		if need.Beta != 0 || need.Draw {
			m.step.work.Head += len(m.step.masked)
		}
		m.growPending()
		for j := range g.DrawCount {
			m.step.pending[j] = OpenedPosition{Position: o.Positions[j], Token: tokens[j], LogP: logP[j]}
		}
		m.step.drawnStages = 1
		if need.Draw { // a token was drawn at every candidate position
			m.step.stages = m.step.stages[:0]
		} else {
			m.step.work.Head += g.DrawCount
		}
		if err := p.checkOpening(m); err != nil {
			p.setFault(m, err)
		}
		rows = rows[g.Count:]
		tokens = tokens[g.DrawCount:]
		logP = logP[g.DrawCount:]
	}
	return nil
}

// listCandidates fills p.choice and the head's rows with the masked positions of members that have
// one ranking, a group for each member.
func (p *Pool) listCandidates(list []*member) {
	h := &p.head
	c := &p.choice
	length := p.pass.readBatch.Length
	first := list[0]
	ranking := &first.step.ranking
	c.Seed = first.Seed
	c.Step = uint32(first.N + 1)
	c.Measures = ranking.Measures
	c.Beta = ranking.Beta
	c.Noise = ranking.Noise
	c.Power = ranking.Power
	c.order = resizeBuffer(&c.order, len(ranking.Order))
	for rank, position := range ranking.Order {
		c.order[position] = int32(rank)
	}
	c.Order = c.order

	h.rows = h.rows[:0]
	c.Position = c.Position[:0]
	c.Groups = c.Groups[:0]
	for _, m := range list {
		m.step.firstMaskedRow = len(h.rows)
		for _, position := range m.step.masked {
			h.rows = append(h.rows, int32(m.step.batchIndex*length+position))
			c.Position = append(c.Position, int32(position))
		}
		m.step.opening = samplers.Opening{
			Positions: p.view.Ints(m.step.quota), // the device says which
			Power:     ranking.Power,
		}
		m.splitStages()
		n := len(m.step.opening.Positions)
		g := backend.Candidates{
			Row:        m.step.firstMaskedRow,
			Rows:       len(m.step.masked),
			Sequence:   uint32(m.Index),
			FirstCount: ranking.FirstCount(n),
			Count:      n,
			DrawCount:  n,
		}
		if !first.step.need.Draw && n > 0 {
			g.DrawCount = m.step.stages[0] // later stages are drawn from partial passes
		}
		c.Groups = append(c.Groups, g)
	}
}
