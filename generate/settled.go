package generate

import "slices"

// Positions settle from the left: those that are settled keep their tokens in all later steps, so
// that a stream may send their text. Where a sampler never changes what is open, all before the
// first mask is settled. Of one that does so within blocks, the finished blocks are, and of one
// that may change any position nothing is before the last step. What is before a new canvas is
// known to it, and so settled.

// settledEnd returns the first position that is masked or that a later step may change.
func (m *member) settledEnd() int {
	end := len(m.Sequence.Tokens)
	s := &m.step
	if s.freeFrom < len(m.free) && (m.cutsText || m.revises && m.mayReturn()) {
		end = m.free[s.freeFrom]
	}
	for p := m.Settled; p < end; p++ {
		isCuttable := m.resizes && slices.Contains(m.EndTokens, m.Tokens[p])
		if m.Tokens[p] == m.mask || isCuttable {
			return p
		}
	}
	return end
}

// mayReturn reports whether a later step may work on the block of the latest step again.
func (m *member) mayReturn() bool {
	isMasked := func(p int) bool { return m.Tokens[p] == m.mask }
	return m.needsStep || slices.ContainsFunc(m.free[m.step.freeFrom:m.step.freeTo], isMasked)
}

// settle sets how many positions are settled after a step.
func (m *member) settle() {
	switch {
	case m.Done:
		m.Settled = len(m.Sequence.Tokens)
	case m.Edit != nil:
		m.Settled = 0
	default:
		m.Settled = m.settledEnd()
	}
}
