package generate

import (
	"errors"
	"slices"

	"unmask/model"
	"unmask/samplers"
)

// partition returns the members of a group for which pred is false, and those for which it is true.
func partition(group []*member, pred func(*member) bool) (no, yes []*member) {
	if !slices.ContainsFunc(group, pred) {
		return group, nil // the usual case, without memory
	}
	for _, m := range group {
		if pred(m) {
			yes = append(yes, m)
		} else {
			no = append(no, m)
		}
	}
	return no, yes
}

// checkRun makes the second pass of members whose samplers ask for a Run: a partial pass over the
// block, in which a token sees those before it, with a shadow of each position of the run. A shadow
// predicts the position from what is before it, as left-to-right decoding would.
func (p *Pool) checkRun(group []*member) error {
	network, err := p.networkFor(1)
	if err != nil {
		return err
	}
	b := &p.pass.batch
	p.pass.owners = append(p.pass.owners[:0], group...)
	p.pass.rows = p.pass.rows[:0]
	for _, m := range group {
		m.step.shadows = m.step.shadows[:0]
		for _, position := range m.step.opening.Second.Run {
			m.step.shadows = append(m.step.shadows, int32(position))
		}
	}
	p.fillBatch(b, group)
	b.Lengths = p.pass.lengths // each sequence ends after its own shadows
	for i, m := range group {
		m.step.batchIndex = i
		p.addRunRows(b, m)
	}

	marginals, err := network.refiner.Refine(p.ctx, b, p.pass.rows)
	if err != nil {
		return err
	}
	p.setMarginals(b, marginals)
	for _, m := range group {
		m.step.runChecked = true
		m.step.work.Partial += m.step.computedRows
		m.step.work.Drafted += len(m.step.shadows)
		p.chooseAgain(m)
		m.step.work.Accepted += len(m.step.opening.Positions)
	}
	return p.drawTokens(withoutFaults(group))
}

// addRunRows puts the tokens of a member's run into the batch, ends its sequence after the shadows,
// which follow the run, and adds the rows from the start of the block on. The shadows' rows are
// read.
func (p *Pool) addRunRows(b *model.Batch, m *member) {
	run := m.step.shadows
	base := m.step.batchIndex * b.Length
	m.step.firstShadow = int(run[len(run)-1]) + 1
	end := m.step.firstShadow + len(run)
	b.Lengths[m.step.batchIndex] = end

	tokens := b.Tokens[base:][:b.Length]
	n := copy(tokens, m.step.opening.Second.Tokens[:m.step.firstShadow])
	for i := n; i < len(tokens); i++ {
		tokens[i] = m.mask
	}

	rowsBefore := len(p.pass.rows)
	blockStart := m.loop.(*blockLoop).from
	p.pass.rows = m.appendRowRange(p.pass.rows, base, blockStart, end)
	m.step.computedRows = len(p.pass.rows) - rowsBefore
	for _, position := range run {
		row, _ := m.shadowRow(base, int(position))
		b.ReadRows = append(b.ReadRows, row)
	}
}

// runSecondPass makes the second pass of members whose samplers ask for one, a full pass that keeps
// no keys and values, lets them choose, and draws their tokens.
func (p *Pool) runSecondPass(group []*member) error {
	b := &p.pass.batch
	p.pass.owners = append(p.pass.owners[:0], group...)
	p.fillBatch(b, group)
	// The tokens of this pass are tried and may not stay, so the cache keeps those of the first.
	b.Cache = nil
	b.Places = nil
	b.CacheReused = false
	for i, m := range group {
		m.step.batchIndex = i
		tokens := m.step.opening.Second.Tokens
		if m.grammarState != nil { // its tokens were drawn one by one
			m.grammarState.MaskForbidden(tokens, m.initial.startTokens)
		}
		p.addReadRows(b, m)
		p.fillSecondTokens(m, tokens)
	}

	marginals, err := group[0].step.network.denoiser.Forward(p.ctx, b)
	if err != nil {
		return err
	}
	p.setMarginals(b, marginals)
	p.observePass()
	for _, m := range group {
		m.step.work.Full++
		p.chooseAgain(m)
	}
	return p.drawTokens(withoutFaults(group))
}

// fillSecondTokens puts the tokens of a second pass into the batch. A language reads all masks.
func (p *Pool) fillSecondTokens(m *member, tokens []int32) {
	b := &p.pass.batch
	base := m.step.batchIndex * b.Length
	copy(b.Tokens[base:], tokens)
	masked := 0
	for position, t := range tokens {
		if t != p.spec.Mask {
			continue
		}
		masked++
		if m.grammarState != nil {
			b.ReadRows = append(b.ReadRows, int32(base+position))
		}
	}
	if m.clock == nil {
		b.Time[m.step.batchIndex] = float64(masked) / float64(len(tokens))
	}
}

// keepFirstTop keeps the most probable tokens of the first pass at the positions that are not
// masked in the second: the second pass sees their tokens and would predict nothing else.
func (p *Pool) keepFirstTop(m *member) {
	if m.Top == 0 {
		return
	}
	var positions []int
	for _, position := range m.step.masked {
		if m.step.opening.Second.Tokens[position] != p.spec.Mask {
			positions = append(positions, position)
		}
	}
	m.step.firstPassTop = map[int][]TopToken{}
	for i, top := range p.topTokensAt(m, positions) {
		m.step.firstPassTop[positions[i]] = top
	}
}

// chooseAgain lets a member's sampler choose after its second pass.
func (p *Pool) chooseAgain(m *member) {
	p.setView(m)
	clearMeasures(&p.view)
	opening, err := m.step.opening.Second.Choose(&p.view)
	if err == nil && opening.Second != nil {
		err = errors.New("the sampler asks for a third pass, want two at most")
	}
	m.step.opening = opening
	if err != nil {
		p.setFault(m, err)
		return
	}
	p.acceptOpening(m)
}

// lookAhead implements View.LookAhead: one pass over copies of the viewed member, each with a
// candidate's tokens in place. It returns, for each candidate, the sum of the entropies at its
// masked positions, in nats, and the number of these.
func (p *Pool) lookAhead(candidates []samplers.Opening) (entropy []float64, masked []int,
	err error) {
	m := p.viewed
	length := len(m.Tokens)
	b := &p.candidates
	*b = model.Batch{
		Size:   len(candidates),
		Length: length,
		Tokens: b.Tokens[:0],
		Time:   b.Time[:0],
		Steps:  b.Steps[:0],

		LastOpened: b.LastOpened[:0],
	}
	p.pass.owners = p.pass.owners[:0]
	masked = make([]int, len(candidates))
	for i, c := range candidates {
		p.pass.owners = append(p.pass.owners, m)
		b.Tokens = append(b.Tokens, m.Tokens...)
		tokens := b.Tokens[i*length:]
		last := m.lastOpened()
		for j, position := range c.Positions {
			tokens[position] = c.Tokens[j]
			last = int32(position)
		}
		b.LastOpened = append(b.LastOpened, last)
		for position, t := range tokens {
			if t == p.spec.Mask && position < m.step.visible {
				b.ReadRows = append(b.ReadRows, int32(i*length+position))
				masked[i]++
			}
		}
		b.Time = append(b.Time, float64(m.maskedLeft-len(c.Positions))/float64(length))
		b.Steps = append(b.Steps, model.Progress{N: m.canvasSteps() + 1, Steps: m.maxSteps})
		if c := m.passCondition(&p.spec); c != nil {
			b.Conditions = append(b.Conditions, c)
		}
	}
	m.step.work.Full += len(candidates)
	m.step.work.Head += len(b.ReadRows)

	marginals, err := m.step.network.denoiser.Forward(p.ctx, b)
	if err != nil {
		return nil, nil, err
	}
	p.setMarginals(b, marginals)
	rowEntropy := make([]float64, len(b.ReadRows))
	err = p.marginalsBeforeGrammar(m).Stats(b.ReadRows, &model.Stats{Entropy: rowEntropy})
	if err != nil {
		return nil, nil, err
	}
	entropy = make([]float64, len(candidates))
	for i, row := range b.ReadRows {
		entropy[int(row)/length] += rowEntropy[i]
	}
	return entropy, masked, nil
}
