package generate

import (
	"cmp"
	"math"
	"slices"

	"unmask/constrain"
	"unmask/internal/philox"
	"unmask/kvcache"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// member is a sequence in a pool: its task, its tokens and its work in the current step. When it
// leaves, a later sequence reuses its memory.
type member struct {
	*task
	Sequence

	// Tokens are the tokens that passes work on: Sequence.Tokens and, for some loops, positions
	// after its end.
	Tokens []int32

	// The layout is the task's, unless the loop changes the sequence's length.
	layout

	loop loop

	// place is the index of its keys and values in the pool's cache, or noPlace.
	place int

	// isPaused means that the member takes no part in the current step.
	isPaused bool

	// maskedLeft is the number of masked free positions of the sequence.
	maskedLeft int

	// past, [length], is what the sampler remembers of each position; samplerState is what a
	// samplers.Stateful remembers beside that.
	past         []float64
	samplerState any

	// stepsBefore counts the steps made on the canvases before the present one.
	stepsBefore int

	// growthAsked means that the text of a language did not fit on the present canvas, so that it was
	// asked whether there is time for another one.
	growthAsked bool

	// needsStep makes the member take another step even if nothing is masked. Its loop sets it.
	needsStep bool

	// cached are the tokens that the kept keys and values were computed from. Where a token differs
	// from cached, its keys and values are stale.
	cached []int32

	// foundPrefix has keys and values of cached from the pool's store, until the member has a place
	// to which they are copied.
	foundPrefix kvcache.Prefix

	// grammarState follows the request's language; nil without one.
	grammarState *constrain.Sequence

	step stepState
}

// stepState is a member's work in one step. The comments say which part of the step sets a field;
// beginStep clears all of them.
type stepState struct {
	// Set by beginStep.

	// span is what the loop works on in this step.
	span
	// quota is the number of positions that the schedule opens.
	quota int
	// endPenalty is added to the logits of end tokens, see Recipe.EndPenalty.
	endPenalty float64
	// masked are the positions that may open, ascending.
	masked []int
	// open are the positions that a sampler may close or replace, ascending.
	open []int
	// need is what the sampler has to know of the marginals.
	need samplers.Need

	// Set before the pass.

	// isDecided means that nobody has to choose positions any more: they are known, or the loop does
	// not want any.
	isDecided bool
	// batchIndex is the index of the member's sequence in the batch.
	batchIndex int
	// firstShadow is the position of the first shadow in the batch, behind the sequence's own ones.
	firstShadow int
	// computedRows is the number of rows that the pass computes for the member.
	computedRows int

	// Set when positions are chosen.

	// onDevice means that the device chooses, by ranking.
	onDevice bool
	ranking  samplers.Ranking
	// runChecked means that the latest pass checked a run: marginals are those of the shadows.
	runChecked bool
	// firstMaskedRow and firstOpenRow are the indexes of the member's first masked and first open
	// row among the rows of a call to the head.
	firstMaskedRow int
	firstOpenRow   int
	// opening is the sampler's choice.
	opening samplers.Opening
	// firstPassTop are the top tokens by position of a pass before the latest, see keepFirstTop.
	firstPassTop map[int][]TopToken

	// Set when tokens are drawn.

	// stages are the ends of the stages in opening.Positions; drawnStages counts those whose tokens
	// are drawn.
	stages      []int
	drawnStages int
	// pending are the positions that open when the step is applied, with their tokens.
	pending []OpenedPosition

	// work counts the passes and rows of the step; a fault ends the sequence when the step is
	// applied.
	work  Work
	fault error
}

// emptied returns a state without contents that has the memory of s.
func (s *stepState) emptied() stepState {
	return stepState{
		masked:  s.masked[:0],
		open:    s.open[:0],
		stages:  s.stages[:0],
		pending: s.pending[:0],
	}
}

// beginStep prepares the member's next step: which positions may open, how many, and what the
// sampler needs for that.
func (m *member) beginStep() {
	m.step = m.step.emptied()
	if m.grammarState != nil {
		m.grammarState.BeginStep()
	}

	s := &m.step
	s.span = m.loop.nextSpan()
	for _, p := range m.free[s.freeFrom:s.freeTo] {
		switch {
		case m.Tokens[p] != m.mask:
			if m.revises || m.resizes {
				s.open = append(s.open, p)
			}
		case p < s.openLimit:
			s.masked = append(s.masked, p)
		}
	}

	s.quota = m.loop.quota()
	if s.quota == 0 && m.scheduleIdles {
		s.masked = s.masked[:0] // the step opens nothing, so it needs no pass
	}
	if m.EndPenalty != 0 {
		s.endPenalty = m.EndPenalty * math.Log(1-m.penaltyTime()+penaltyEps)
	}
	if !s.skipsSampler {
		s.need = samplers.NeedsFor(m.Sampler, s.step, s.steps, s.quota)
	}
}

// canvasSteps returns how many steps were made on the present canvas.
func (m *member) canvasSteps() int { return m.N - m.stepsBefore }

// randomStream returns the random numbers of the step. They are counted by seed, sequence and step,
// so a sequence draws the same whatever shares its passes.
func (m *member) randomStream() philox.Stream {
	step := uint32(m.N + 1)
	if m.step.drawsByPosition {
		step = 0
	}
	return philox.Stream{Seed: m.Seed, Sequence: uint32(m.Index), Step: step}
}

// penaltyEps is the time of Dream's last step. It also keeps the penalty of the first step, whose
// time is 1, finite.
const penaltyEps = 1e-3

// penaltyTime returns the time of the step for EndPenalty, from 1 to penaltyEps.
func (m *member) penaltyTime() float64 {
	if m.samplerPlans {
		return float64(m.maskedLeft) / float64(len(m.free))
	}
	return 1 - (1-penaltyEps)*float64(m.canvasSteps())/float64(m.maxSteps)
}

// drawPower returns the exponent of the step's draws: tokens are drawn from p^power.
func (m *member) drawPower() float64 { return cmp.Or(m.step.opening.Power, 1) }

// commitStep applies a computed step to the sequence, or ends the sequence if the step has a fault.
func (m *member) commitStep() {
	m.clearChanges()
	m.LengthBefore = len(m.Sequence.Tokens)
	m.Finished = false
	if m.grammarState != nil {
		m.Choices = m.grammarState.Choices
		m.FilterOverruled = m.grammarState.FilterOverruled
	}

	s := &m.step
	if s.fault != nil {
		m.fail(s.fault)
		return
	}
	if l, ok := m.loop.(*specLoop); ok {
		l.acceptDraft()
	}

	m.openPending()
	m.replaceAndClose()
	m.maskedLeft += len(m.Closed) - len(m.Opened)
	m.Work.Add(s.work)
	if len(m.free) > 0 {
		m.N++
		m.loop.advance()
	}
	m.fillAfterEnd()
	m.updateDone()
	m.settle()
}

// clearChanges forgets what the step before has changed.
func (m *member) clearChanges() {
	m.Opened = m.Opened[:0]
	m.Closed = m.Closed[:0]
	m.Replaced = m.Replaced[:0]
	m.Resized = m.Resized[:0]
}

// openPending puts the drawn tokens in place. Those beyond the sequence's end, where some loops
// work, are not reported.
func (m *member) openPending() {
	length := len(m.Sequence.Tokens)
	for _, o := range m.step.pending {
		if o.Position < length {
			m.Opened = append(m.Opened, o)
		}
		m.Tokens[o.Position] = o.Token
		m.past[o.Position] = o.LogP
	}
}

// replaceAndClose changes the tokens that the sampler replaces, and masks those that it closes.
func (m *member) replaceAndClose() {
	length := len(m.Sequence.Tokens)
	o := &m.step.opening
	for j, p := range o.Replace {
		token := o.Replacement[j]
		m.Tokens[p] = token
		if p < length {
			m.Replaced = append(m.Replaced, OpenedPosition{Position: p, Token: token, LogP: math.NaN()})
		}
	}
	for _, p := range o.Close {
		m.Tokens[p] = m.mask
		m.past[p] = 0
		if p < length {
			m.Closed = append(m.Closed, p)
		}
	}
}

// fillAfterEnd fills the rest of the sequence once a token of task.fillingEnds is settled, or
// everything before a position at which the language allows nothing but such tokens. What follows
// the end is not part of the text, so passes for it would be wasted.
func (m *member) fillAfterEnd() {
	if len(m.fillingEnds) == 0 || len(m.free) == 0 {
		return
	}
	if m.endsEarly {
		m.replaceAfterEnd()
	}
	settled := m.settledEnd()
	for i, p := range m.free {
		if p >= settled {
			if p == settled && m.Tokens[p] == m.mask && m.mustEnd(p) {
				m.fillRest(i, m.fillingEnds[0])
			}
			return
		}
		if m.endsAt(p, m.fillingEnds) {
			m.fillRest(i+1, m.Tokens[p])
			return
		}
	}
}

// fillRest fills what is masked in m.free from index first on with an end token, which ends the
// sequence.
func (m *member) fillRest(first int, end int32) {
	m.fillMasked(first, end)
	m.needsStep = false
}

// replaceAfterEnd makes everything behind the first open end token that token, for recipes with
// which such a token ends the text even while positions before it are masked.
func (m *member) replaceAfterEnd() {
	first := slices.IndexFunc(m.free, func(p int) bool {
		return m.Tokens[p] != m.mask && m.endsAt(p, m.fillingEnds)
	})
	if first < 0 {
		return
	}

	end := m.Tokens[m.free[first]]
	m.fillMasked(first+1, end)
	for _, p := range m.free[first+1:] {
		if m.Tokens[p] != end {
			m.Tokens[p] = end
			m.Replaced = append(m.Replaced, OpenedPosition{Position: p, Token: end, LogP: math.NaN()})
		}
	}
}

// fillMasked writes a token at the masked positions in m.free from index first on.
func (m *member) fillMasked(first int, token int32) {
	for _, p := range m.free[first:] {
		if m.Tokens[p] != m.mask {
			continue
		}
		m.Tokens[p] = token
		m.past[p] = 0
		if p < len(m.Sequence.Tokens) {
			m.Opened = append(m.Opened, OpenedPosition{Position: p, Token: token, LogP: math.NaN()})
			m.maskedLeft--
		}
	}
}

// updateDone sets Done if there is no further step.
func (m *member) updateDone() {
	m.Done = m.canvasSteps() >= m.maxSteps || m.maskedLeft == 0 && !m.needsStep
	m.Finished = m.Done
}

// countMasked returns the number of masked positions of the sequence that may open.
func (m *member) countMasked() (n int) {
	for _, p := range m.free {
		if p < len(m.Sequence.Tokens) && m.Tokens[p] == m.mask {
			n++
		}
	}
	return n
}

// isFiltered reports whether the logits of the member's rows differ from the model's.
func (m *member) isFiltered() bool {
	return m.hasFilter() || len(m.step.forbidden) > 0 || m.step.endPenalty != 0
}

// fail ends the sequence with an error.
func (m *member) fail(err error) {
	m.Err = err
	m.Done = true
	m.Finished = true
}

// applyEdit lets the caller of the request change tokens, and counts the masks again.
func (m *member) applyEdit(spec model.Spec) error {
	tokens := m.Sequence.Tokens
	if err := m.Edit(&m.Sequence); err != nil {
		return err
	}

	// Edit may have set another slice. The sequence keeps its own, which m.Tokens shares.
	edited := m.Sequence.Tokens
	m.Sequence.Tokens = tokens
	if len(edited) != len(tokens) {
		return refuse("tokens", param.OutOfRange, "tokens are %d, want %d", len(edited), len(tokens))
	}
	copy(tokens, edited)
	if err := CheckTokens("tokens", tokens, spec); err != nil {
		return err
	}
	m.maskedLeft = m.countMasked()
	m.updateDone()
	m.settle()
	return nil
}
