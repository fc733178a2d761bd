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
	m.device = false
	if n := len(m.masked); p.chooses && !m.filtered() && n > 0 && n <= backend.ChoiceGroup {
		m.ranking, m.device = samplers.RankingOf(m.Sampler, m.step, m.of, m.shape)
		m.ranking = m.ranking.For(m.quota())
	}
	return m.device
}

// sameRanking reports whether a device can choose for both members in one call.
func (m *member) sameRanking(o *member) bool {
	a, b := m.ranking, o.ranking
	return m.seed == o.seed && m.N == o.N && m.need.Draw == o.need.Draw &&
		a.By == b.By && a.Share == b.Share && a.Beta == b.Beta && a.Noise == b.Noise &&
		a.Power == b.Power &&
		len(a.Order) == len(b.Order) && (len(a.Order) == 0 || &a.Order[0] == &b.Order[0] ||
		slices.Equal(a.Order, b.Order))
}

// chooseOnDevice has the device choose the positions of members with one ranking, and draw the
// tokens of their first stage.
func (p *Pool) chooseOnDevice(list []*member) error {
	h, c, first, length := &p.head, &p.choice, list[0], p.pass.of.Length
	k, need := first.ranking, first.need
	h.rows, c.Position, c.Groups = h.rows[:0], c.Position[:0], c.Groups[:0]
	c.Seed, c.Step, c.By, c.Beta, c.Noise, c.Power = first.seed, uint32(first.N+1), k.By, k.Beta,
		k.Noise, k.Power
	c.order = grow(&c.order, len(k.Order))
	for i, at := range k.Order {
		c.order[at] = int32(i)
	}
	c.Order = c.order
	for _, m := range list {
		m.at = len(h.rows)
		for _, at := range m.masked {
			h.rows = append(h.rows, int32(m.row*length+at))
			c.Position = append(c.Position, int32(at))
		}
		m.opening = samplers.Opening{Positions: p.view.Ints(m.quota()), Power: k.Power}
		n := len(m.opening.Positions)
		g := backend.Candidates{Row: m.at, Rows: len(m.masked), Sequence: uint32(m.Index),
			First: k.First(n), Count: n, Draw: n}
		if m.split(); !need.Draw && n > 0 {
			g.Draw = m.ends[0]
		}
		c.Groups = append(c.Groups, g)
	}
	chosen, drawn := c.Chosen()
	c.Row, c.Token, c.LogP = grow(&c.Row, chosen), grow(&c.Token, drawn), grow(&c.LogP, drawn)
	if err := p.pass.chooser.Choose(h.rows, &c.Choice); err != nil {
		return err
	}
	rows, tokens, logP := c.Row, c.Token, c.LogP
	for i, m := range list {
		o, g := &m.opening, c.Groups[i]
		for j := range o.Positions {
			o.Positions[j] = int(c.Position[rows[j]])
		}
		if need.Beta != 0 || need.Draw {
			m.work.Head += len(m.masked)
		}
		m.ready()
		for j := range g.Draw {
			m.pending[j] = Opened{Position: o.Positions[j], Token: tokens[j], LogP: logP[j]}
		}
		if m.drawn = 1; need.Draw { // a token was drawn at every candidate position
			m.ends = m.ends[:0]
		} else {
			m.work.Head += g.Draw
		}
		if err := p.check(m); err != nil {
			p.blame(m, err)
		}
		rows, tokens, logP = rows[g.Count:], tokens[g.Draw:], logP[g.Draw:]
	}
	return nil
}
