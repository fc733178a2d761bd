package generate

import (
	"fmt"

	"unmask/backend"
	"unmask/samplers"
)

// choice is the memory of choices that a device makes.
type choice struct {
	backend.Choice
	order []int32 // the inverse of the ranking's order: of each position, when it opens
}

// ranking is what the sampler comes to at this step, if the device of the latest pass can follow it. Before the first pass the
// host chooses, which gives the same.
func (r *run) ranking(step, steps int) (k samplers.Ranking, onDevice bool) {
	if r.chooser == nil {
		return k, false
	}
	for _, s := range r.busy {
		if len(s.masked) > backend.ChoiceGroup {
			return k, false
		}
	}
	return samplers.RankingOf(r.o.Sampler, step, steps, r.shape)
}

// chooseOnDevice lets the device choose every sequence's positions and draw those of the first stage.
func (r *run) chooseOnDevice(need samplers.Need, k samplers.Ranking) error {
	h, c := &r.head, &r.choice
	h.rows, c.Position, c.Groups = h.rows[:0], c.Position[:0], c.Groups[:0]
	c.Seed, c.Step, c.By, c.Beta, c.Noise, c.Power = r.o.Seed, uint32(r.n), k.By, k.Beta, k.Noise, k.Power
	if k.Order != nil && c.order == nil {
		c.order = make([]int32, len(k.Order))
		for i, p := range k.Order {
			c.order[p] = int32(i)
		}
	}
	c.Order = c.order
	for _, s := range r.busy {
		s.at = len(h.rows)
		for _, p := range s.masked {
			h.rows = append(h.rows, int32(s.row*r.o.Length+p))
			c.Position = append(c.Position, int32(p))
		}
		if need.Beta != 0 || need.Draw {
			s.work.Head += len(s.masked)
		}
		s.opening = samplers.Opening{Positions: r.view.Ints(r.quota(s)), Power: k.Power}
		n := len(s.opening.Positions)
		g := backend.Candidates{Row: s.at, Rows: len(s.masked), Sequence: uint32(s.seq.Index), First: k.First(n), Count: n, Draw: n}
		if r.split(s); !need.Draw {
			g.Draw = s.ends[0]
		}
		c.Groups = append(c.Groups, g)
	}
	chosen, drawn := c.Chosen()
	c.Row, c.Token, c.LogP = grow(&c.Row, chosen), grow(&c.Token, drawn), grow(&c.LogP, drawn)
	if err := r.chooser.Choose(h.rows, &c.Choice); err != nil {
		return err
	}
	rows, tokens, logP := c.Row, c.Token, c.LogP
	for i, s := range r.busy {
		o, g := &s.opening, c.Groups[i]
		for j := range o.Positions {
			o.Positions[j] = int(c.Position[rows[j]])
		}
		if need.Draw {
			o.Tokens, o.LogP = tokens[:g.Draw], logP[:g.Draw]
		}
		rows, tokens, logP = rows[g.Count:], tokens[g.Draw:], logP[g.Draw:]
		if err := r.check(s); err != nil {
			return fmt.Errorf("sequence %d: %w", s.seq.Index, err)
		}
	}
	return nil
}

// place puts the tokens of the first stage, which the device drew, where sample would have.
func (r *run) place() {
	tokens, logP := r.choice.Token, r.choice.LogP
	for i, s := range r.busy {
		s.drawn = 1
		n := r.choice.Groups[i].Draw
		for j, p := range s.opening.Positions[:n] {
			s.pending[j] = Opened{Position: p, Token: tokens[j], LogP: logP[j]}
		}
		s.work.Head += n
		tokens, logP = tokens[n:], logP[n:]
	}
}
