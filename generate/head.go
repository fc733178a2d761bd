package generate

import (
	"cmp"
	"math"

	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// headWork is the memory for calls to the output head, and their results. All results are of the
// latest call for their kind of positions; fillView shows a member its part.
type headWork struct {
	// rows are the rows of the next call, and owner has the owner of each row of a draw.
	rows  []int32
	owner []drawnToken

	// stats are the reductions at masked positions that the latest Need asked for. Their slices are
	// parts of those in allStats, which are kept as memory.
	stats    model.Stats
	allStats model.Stats

	// draw is the latest draw at masked positions, in the memory of uniform, token and logP.
	draw    model.Draw
	uniform []float64
	token   []int32
	logP    []float64

	// greedy has the p of the most probable tokens, for draws at temperature 0.
	greedy []float64

	// openTokenLogP has log p of the tokens at open positions, in the memory of openLogP. openSum has
	// the logarithms of the sums there.
	openTokenLogP []float64
	openLogP      []float64
	openSum       []float64

	// openStats and openDraw are the reductions and the draw at open positions.
	openStats model.Stats
	openDraw  model.Draw

	// seen has, for each position, the last stamp that mark gave it. It is a set of positions that is
	// emptied by counting stamp up.
	seen  []int
	stamp int
}

// drawnToken is the place of a drawn token.
type drawnToken struct {
	m *member

	// index is the index in opening.Positions, or the position itself at open positions.
	index int
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

// computeNeeds computes what the members' samplers need; all members have the same Need.
func (p *Pool) computeNeeds(list []*member) error {
	p.listMaskedRows(list)
	need := list[0].step.need
	marginals := p.marginalsOf(list[0])
	if needsStats(need) {
		if err := p.computeStats(need, marginals); err != nil {
			return err
		}
	}
	if need.Draw {
		if err := p.drawAllMasked(list); err != nil {
			return err
		}
	}
	if need.OpenLogP || need.ShadowLogP {
		if err := p.logProbAtOpen(list, marginals); err != nil {
			return err
		}
	}
	if err := p.topAtOpen(list, marginals); err != nil {
		return err
	}
	for _, m := range list {
		m.step.work.Head += headRows(need, len(m.step.masked), len(m.step.open))
	}
	return nil
}

// needsStats reports whether a Need has a reduction over the tokens of masked positions.
func needsStats(need samplers.Need) bool {
	return need.Beta != 0 || need.Entropy || need.Top || need.LogSum
}

// headRows returns the number of rows of the head that a Need costs a sequence.
func headRows(need samplers.Need, masked, open int) (n int) {
	if needsStats(need) {
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

// listMaskedRows sets rows to the masked positions of all members.
func (p *Pool) listMaskedRows(list []*member) {
	h := &p.head
	length := p.pass.readBatch.Length
	h.rows = h.rows[:0]
	for _, m := range list {
		m.step.firstMaskedRow = len(h.rows)
		for _, position := range m.step.masked {
			h.rows = append(h.rows, int32(m.step.batchIndex*length+position))
		}
	}
}

// computeStats computes the reductions of a Need at rows.
func (p *Pool) computeStats(need samplers.Need, marginals model.Marginals) error {
	h := &p.head
	n := len(h.rows)
	h.stats = model.Stats{Beta: need.Beta}
	if need.Beta != 0 {
		h.stats.LogMoment = resizeBuffer(&h.allStats.LogMoment, n)
	}
	if need.Entropy {
		h.stats.Entropy = resizeBuffer(&h.allStats.Entropy, n)
	}
	if need.Top {
		h.stats.P1 = resizeBuffer(&h.allStats.P1, n)
		h.stats.P2 = resizeBuffer(&h.allStats.P2, n)
		h.stats.Arg = resizeBuffer(&h.allStats.Arg, n)
	}
	if need.LogSum {
		h.stats.LogSum = resizeBuffer(&h.allStats.LogSum, n)
	}
	return marginals.Stats(h.rows, &h.stats)
}

// drawAllMasked draws a token at every masked position; rows are those positions.
func (p *Pool) drawAllMasked(list []*member) error {
	h := &p.head
	n := len(h.rows)
	h.draw = model.Draw{
		Power:   cmp.Or(list[0].step.need.Power, 1),
		Uniform: resizeBuffer(&h.uniform, n),
		Token:   resizeBuffer(&h.token, n),
		LogP:    resizeBuffer(&h.logP, n),
	}
	for _, m := range list {
		stream := m.randomStream()
		for j, position := range m.step.masked {
			h.draw.Uniform[m.step.firstMaskedRow+j] = stream.Uniform(position, philox.Token)
		}
	}
	return p.sampleRows(list[0], &h.draw)
}

// sampleRows draws a token at each of the head's rows, which belong to members with m's filter. At
// temperature 0 it takes the most probable ones.
func (p *Pool) sampleRows(m *member, d *model.Draw) error {
	h := &p.head
	if !m.Greedy {
		return p.marginalsOf(m).Sample(h.rows, d)
	}
	h.greedy = resizeBuffer(&h.greedy, len(h.rows))
	err := p.marginalsOf(m).Stats(h.rows, &model.Stats{P1: h.greedy, Arg: d.Token})
	for i, p1 := range h.greedy {
		d.LogP[i] = math.Log(p1)
	}
	return err
}

// listOpenRows sets rows and owner to the open positions of all members: to their shadows, which do
// not see the position's own token, if the samplers need ShadowLogP.
func (p *Pool) listOpenRows(list []*member) {
	h := &p.head
	length := p.pass.readBatch.Length
	h.rows = h.rows[:0]
	h.owner = h.owner[:0]
	for _, m := range list {
		m.step.firstOpenRow = len(h.rows)
		if m.step.need.ShadowLogP && m.step.shadows == nil {
			continue
		}
		base := m.step.batchIndex * length
		for _, position := range m.step.open {
			row := int32(base + position)
			if m.step.need.ShadowLogP {
				row, _ = m.shadowRow(base, position)
			}
			h.rows = append(h.rows, row)
			h.owner = append(h.owner, drawnToken{m, position})
		}
	}
}

// topAtOpen computes the most probable tokens at open positions, and draws other tokens there, if
// the samplers need either.
func (p *Pool) topAtOpen(list []*member, marginals model.Marginals) error {
	h := &p.head
	need := list[0].step.need
	if !need.OpenTop && !need.OpenDraw {
		return nil
	}
	p.listOpenRows(list)
	n := len(h.rows)
	if need.OpenTop {
		h.openStats = model.Stats{
			P1:  resizeBuffer(&h.openStats.P1, n),
			P2:  resizeBuffer(&h.openStats.P2, n),
			Arg: resizeBuffer(&h.openStats.Arg, n),
		}
		if err := marginals.Stats(h.rows, &h.openStats); err != nil {
			return err
		}
	}
	if !need.OpenDraw {
		return nil
	}
	h.openDraw = model.Draw{
		Power:   cmp.Or(need.Power, 1),
		Uniform: resizeBuffer(&h.openDraw.Uniform, n),
		Token:   resizeBuffer(&h.openDraw.Token, n),
		LogP:    resizeBuffer(&h.openDraw.LogP, n),
	}
	for i, d := range h.owner {
		h.openDraw.Uniform[i] = d.m.randomStream().Uniform(d.index, philox.Token)
	}
	return p.sampleRows(list[0], &h.openDraw)
}

// logProbAtOpen computes log p of the tokens at open positions.
func (p *Pool) logProbAtOpen(list []*member, marginals model.Marginals) error {
	h := &p.head
	p.listOpenRows(list)
	sums := resizeBuffer(&h.openSum, len(h.rows))
	h.openTokenLogP = resizeBuffer(&h.openLogP, len(h.rows))
	if err := marginals.Stats(h.rows, &model.Stats{LogSum: sums}); err != nil {
		return err
	}
	return marginals.Visit(h.rows, func(i int, logits []float32) {
		d := h.owner[i]
		token := d.m.Tokens[d.index]
		h.openTokenLogP[i] = float64(logits[token]) - sums[i]
	})
}

// fillView sets the view's measures to the member's part of what was computed.
func (h *headWork) fillView(v *samplers.View, m *member) {
	clearMeasures(v)
	need := m.step.need

	first := m.step.firstMaskedRow
	end := first + len(m.step.masked)
	if need.Beta != 0 {
		v.LogMoment = h.stats.LogMoment[first:end]
	}
	if need.Entropy {
		v.Entropy = h.stats.Entropy[first:end]
	}
	if need.Top {
		v.P1 = h.stats.P1[first:end]
		v.P2 = h.stats.P2[first:end]
		v.Arg = h.stats.Arg[first:end]
	}
	if need.LogSum {
		v.LogSum = h.stats.LogSum[first:end]
	}
	if need.Draw {
		v.Token = h.draw.Token[first:end]
		v.LogP = h.draw.LogP[first:end]
	}

	openFirst := m.step.firstOpenRow
	openEnd := openFirst + len(m.step.open)
	if need.OpenLogP || need.ShadowLogP && m.step.shadows != nil {
		v.OpenLogP = h.openTokenLogP[openFirst:openEnd]
	}
	if need.OpenTop {
		v.OpenP1 = h.openStats.P1[openFirst:openEnd]
		v.OpenArg = h.openStats.Arg[openFirst:openEnd]
	}
	if need.OpenDraw {
		v.OpenToken = h.openDraw.Token[openFirst:openEnd]
		v.OpenTokenLogP = h.openDraw.LogP[openFirst:openEnd]
	}
}

// clearMeasures removes the measures of another member or pass, so that a sampler which reads what
// it did not ask for fails in its first test.
func clearMeasures(v *samplers.View) {
	v.LogMoment = nil
	v.Entropy = nil
	v.P1 = nil
	v.P2 = nil
	v.Arg = nil
	v.Token = nil
	v.LogP = nil
	v.LogSum = nil
	v.OpenLogP = nil
	v.OpenP1 = nil
	v.OpenArg = nil
	v.OpenToken = nil
	v.OpenTokenLogP = nil
}

// resizeBuffer returns n elements in the memory of s, which grows if it is too small. Their values
// are those of the last use.
func resizeBuffer[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	return (*s)[:n]
}
