package generate

import (
	"slices"

	"unmask/backend"
	"unmask/samplers"
)

// choice is the memory for choices that a device makes.
type choice struct {
	backend.Choice
	order []int32 // the inverse of the ranking's order: for each position, its rank
}

// rank reports whether the device of the latest pass can choose for a member, and sets its ranking.
// Before the first pass the host chooses, with the same result.
func (p *Pool) rank(m *member) bool {
	m.step.device = false
	if n := len(m.step.masked); p.pass.chooser != nil && !m.step.causal && !m.filtered() &&
		m.speech == nil && !m.Greedy && n > 0 && n <= backend.ChoiceGroup {
		m.step.ranking, m.step.device = samplers.RankingOf(m.Sampler, m.step.n, m.step.of, m.shape)
		m.step.ranking = m.step.ranking.Simplify(m.step.quota)
	}
	return m.step.device
}

// sameRanking reports whether a device can choose for both members in one call.
func (m *member) sameRanking(o *member) bool {
	a, b := m.step.ranking, o.step.ranking
	return m.Seed == o.Seed && m.N == o.N && m.step.need.Draw == o.step.need.Draw &&
		a.Measures == b.Measures && a.Share == b.Share && a.Beta == b.Beta && a.Noise == b.Noise &&
		a.Power == b.Power &&
		len(a.Order) == len(b.Order) && (len(a.Order) == 0 || &a.Order[0] == &b.Order[0] ||
		slices.Equal(a.Order, b.Order))
}

// chooseOnDevice has the device choose the positions of members with one ranking, and draw the
// tokens of their first stage.
func (p *Pool) chooseOnDevice(list []*member) error {
	h, c, first, length := &p.head, &p.choice, list[0], p.pass.of.Length
	k, need := first.step.ranking, first.step.need
	h.rows, c.Position, c.Groups = h.rows[:0], c.Position[:0], c.Groups[:0]
	c.Seed, c.Step, c.Measures, c.Beta, c.Noise = first.Seed, uint32(first.N+1), k.Measures, k.Beta,
		k.Noise
	c.Power = k.Power
	c.order = grow(&c.order, len(k.Order))
	for i, at := range k.Order {
		c.order[at] = int32(i)
	}
	c.Order = c.order
	for _, m := range list {
		m.step.maskedAt = len(h.rows)
		for _, at := range m.step.masked {
			h.rows = append(h.rows, int32(m.step.row*length+at))
			c.Position = append(c.Position, int32(at))
		}
		m.step.opening = samplers.Opening{Positions: p.view.Ints(m.step.quota), Power: k.Power}
		n := len(m.step.opening.Positions)
		g := backend.Candidates{Row: m.step.maskedAt, Rows: len(m.step.masked), Sequence: uint32(m.Index),
			FirstCount: k.FirstCount(n), Count: n, DrawCount: n}
		if m.split(); !need.Draw && n > 0 {
			g.DrawCount = m.step.stages[0]
		}
		c.Groups = append(c.Groups, g)
	}
	chosen, drawn := c.Counts()
	c.Row, c.Token, c.LogP = grow(&c.Row, chosen), grow(&c.Token, drawn), grow(&c.LogP, drawn)
	if err := p.pass.chooser.Choose(h.rows, &c.Choice); err != nil {
		return err
	}
	rows, tokens, logP := c.Row, c.Token, c.LogP
	for i, m := range list {
		o, g := &m.step.opening, c.Groups[i]
		for j := range o.Positions {
			o.Positions[j] = int(c.Position[rows[j]])
		}
		if need.Beta != 0 || need.Draw {
			m.step.work.Head += len(m.step.masked)
		}
		m.ready()
		for j := range g.DrawCount {
			m.step.pending[j] = OpenedPosition{Position: o.Positions[j], Token: tokens[j], LogP: logP[j]}
		}
		if m.step.drawn = 1; need.Draw { // a token was drawn at every candidate position
			m.step.stages = m.step.stages[:0]
		} else {
			m.step.work.Head += g.DrawCount
		}
		if err := p.check(m); err != nil {
			p.blame(m, err)
		}
		rows, tokens, logP = rows[g.Count:], tokens[g.DrawCount:], logP[g.DrawCount:]
	}
	return nil
}
