package generate

import (
	"cmp"
	"math"

	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// headWork is the memory for calls to the output head, and their results.
type headWork struct {
	rows  []int32 // of the next call
	owner []drawn // the owner of each row of a draw

	// At masked positions.
	stats         model.Stats // parts of all, as Need asks for them
	all           model.Stats
	draw          model.Draw // of uniform, token and logP
	uniform, logP []float64
	token         []int32
	greedy        []float64 // p of the most probable tokens, for draws at temperature 0

	// At open positions.
	openSum, openLogP []float64
	present           []float64 // log p of the tokens there, in openLogP
	open              model.Stats
	openDraw          model.Draw

	seen  []int // for each position, the last stamp that mark gave it
	stamp int
}

// drawn is the place of a drawn token.
type drawn struct {
	m     *member
	index int // index in opening.Positions, or the position itself at open positions
}

// mark sets seen at the given positions to a new stamp and returns the stamp.
func (h *headWork) mark(lists ...[]int) int {
	h.stamp++
	for _, list := range lists {
		for _, p := range list {
			h.seen[p] = h.stamp
		}
	}
	return h.stamp
}

// stats computes what the members' samplers need; all members have the same Need.
func (p *Pool) stats(list []*member) error {
	p.atMasked(list)
	need, marginals := list[0].step.need, p.marginals(list[0])
	if reduces(need) {
		if err := p.reduce(need, marginals); err != nil {
			return err
		}
	}
	if need.Draw {
		if err := p.drawAll(list); err != nil {
			return err
		}
	}
	if need.OpenLogP || need.ShadowLogP {
		if err := p.present(list, marginals); err != nil {
			return err
		}
	}
	if err := p.reconsider(list, marginals); err != nil {
		return err
	}
	for _, m := range list {
		m.step.work.Head += headRows(need, len(m.step.masked), len(m.step.open))
	}
	return nil
}

// reduces reports whether a Need has a reduction over the tokens of masked positions.
func reduces(need samplers.Need) bool {
	return need.Beta != 0 || need.Entropy || need.Top || need.LogSum
}

// headRows returns the number of rows of the head that a Need costs a sequence.
func headRows(need samplers.Need, masked, open int) (n int) {
	if reduces(need) {
		n += masked
	}
	if need.Draw {
		n += masked
	}
	if need.OpenLogP || need.ShadowLogP { // a sum and a logit
		n += 2 * open
	}
	if need.OpenTop {
		n += open
	}
	if need.OpenDraw {
		n += open
	}
	return n
}

// atMasked sets rows to the masked positions of all members.
func (p *Pool) atMasked(list []*member) {
	h, length := &p.head, p.pass.of.Length
	h.rows = h.rows[:0]
	for _, m := range list {
		m.step.maskedAt = len(h.rows)
		for _, at := range m.step.masked {
			h.rows = append(h.rows, int32(m.step.row*length+at))
		}
	}
}

// reduce computes the reductions of a Need at rows.
func (p *Pool) reduce(need samplers.Need, marginals model.Marginals) error {
	h := &p.head
	n := len(h.rows)
	h.stats = model.Stats{Beta: need.Beta}
	if need.Beta != 0 {
		h.stats.LogMoment = grow(&h.all.LogMoment, n)
	}
	if need.Entropy {
		h.stats.Entropy = grow(&h.all.Entropy, n)
	}
	if need.Top {
		h.stats.P1, h.stats.P2, h.stats.Arg = grow(&h.all.P1, n), grow(&h.all.P2, n), grow(&h.all.Arg, n)
	}
	if need.LogSum {
		h.stats.LogSum = grow(&h.all.LogSum, n)
	}
	return marginals.Stats(h.rows, &h.stats)
}

// drawAll draws a token at every masked position; rows are those positions.
func (p *Pool) drawAll(list []*member) error {
	h := &p.head
	n := len(h.rows)
	h.draw = model.Draw{Power: cmp.Or(list[0].step.need.Power, 1), Uniform: grow(&h.uniform, n),
		Token: grow(&h.token, n), LogP: grow(&h.logP, n)}
	for _, m := range list {
		stream := m.stream()
		for j, at := range m.step.masked {
			h.draw.Uniform[m.step.maskedAt+j] = stream.Uniform(at, philox.Token)
		}
	}
	return p.sampleRows(list[0], &h.draw)
}

// sampleRows draws a token at each of the head's rows, which belong to members with m's filter. At
// temperature 0 it takes the most probable ones.
func (p *Pool) sampleRows(m *member, d *model.Draw) error {
	h := &p.head
	if !m.Greedy {
		return p.marginals(m).Sample(h.rows, d)
	}
	h.greedy = grow(&h.greedy, len(h.rows))
	err := p.marginals(m).Stats(h.rows, &model.Stats{P1: h.greedy, Arg: d.Token})
	for i, p1 := range h.greedy {
		d.LogP[i] = math.Log(p1)
	}
	return err
}

// atOpen sets rows and owner to the open positions of all members.
func (p *Pool) atOpen(list []*member) {
	h, length := &p.head, p.pass.of.Length
	h.rows, h.owner = h.rows[:0], h.owner[:0]
	for _, m := range list {
		m.step.openAt = len(h.rows)
		for _, at := range m.step.open {
			row := int32(m.step.row*length + at)
			if m.step.need.ShadowLogP {
				if row, _ = m.shadowRow(m.step.row*length, at); m.step.shadows == nil {
					continue
				}
			}
			h.rows = append(h.rows, row)
			h.owner = append(h.owner, drawn{m, at})
		}
	}
}

// reconsider computes the most probable tokens at open positions, and draws other tokens there, if
// the samplers need either.
func (p *Pool) reconsider(list []*member, marginals model.Marginals) error {
	h, need := &p.head, list[0].step.need
	if !need.OpenTop && !need.OpenDraw {
		return nil
	}
	p.atOpen(list)
	n := len(h.rows)
	if need.OpenTop {
		h.open = model.Stats{P1: grow(&h.open.P1, n), P2: grow(&h.open.P2, n), Arg: grow(&h.open.Arg, n)}
		if err := marginals.Stats(h.rows, &h.open); err != nil {
			return err
		}
	}
	if !need.OpenDraw {
		return nil
	}
	h.openDraw = model.Draw{Power: cmp.Or(need.Power, 1), Uniform: grow(&h.openDraw.Uniform, n),
		Token: grow(&h.openDraw.Token, n), LogP: grow(&h.openDraw.LogP, n)}
	for i, d := range h.owner {
		h.openDraw.Uniform[i] = d.m.stream().Uniform(d.index, philox.Token)
	}
	return p.sampleRows(list[0], &h.openDraw)
}

// present computes log p(token) of the present tokens at open positions.
func (p *Pool) present(list []*member, marginals model.Marginals) error {
	h := &p.head
	p.atOpen(list)
	sums := grow(&h.openSum, len(h.rows))
	h.present = grow(&h.openLogP, len(h.rows))
	if err := marginals.Stats(h.rows, &model.Stats{LogSum: sums}); err != nil {
		return err
	}
	return marginals.Visit(h.rows, func(i int, logits []float32) {
		d := h.owner[i]
		h.present[i] = float64(logits[d.m.Tokens[d.index]]) - sums[i]
	})
}

// show sets the view's measures to the member's part of what was computed.
func (h *headWork) show(v *samplers.View, m *member) {
	need := m.step.need
	at, end := m.step.maskedAt, m.step.maskedAt+len(m.step.masked)
	open, openEnd := m.step.openAt, m.step.openAt+len(m.step.open)
	hideMeasures(v)
	if need.Beta != 0 {
		v.LogMoment = h.stats.LogMoment[at:end]
	}
	if need.Entropy {
		v.Entropy = h.stats.Entropy[at:end]
	}
	if need.Top {
		v.P1, v.P2, v.Arg = h.stats.P1[at:end], h.stats.P2[at:end], h.stats.Arg[at:end]
	}
	if need.LogSum {
		v.LogSum = h.stats.LogSum[at:end]
	}
	if need.Draw {
		v.Token, v.LogP = h.draw.Token[at:end], h.draw.LogP[at:end]
	}
	if need.OpenLogP || need.ShadowLogP && m.step.shadows != nil {
		v.OpenLogP = h.present[open:openEnd]
	}
	if need.OpenTop {
		v.OpenP1, v.OpenArg = h.open.P1[open:openEnd], h.open.Arg[open:openEnd]
	}
	if need.OpenDraw {
		v.OpenToken, v.OpenTokenLogP = h.openDraw.Token[open:openEnd], h.openDraw.LogP[open:openEnd]
	}
}

func hideMeasures(v *samplers.View) {
	v.LogMoment, v.Entropy, v.P1, v.P2, v.Arg, v.Token, v.LogP, v.LogSum = nil, nil, nil, nil, nil,
		nil, nil, nil
	v.OpenLogP, v.OpenP1, v.OpenArg, v.OpenToken, v.OpenTokenLogP = nil, nil, nil, nil, nil
}

func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	return (*s)[:n]
}
