package constrain

// anyLength is a Language.Beyond with which texts may be as long as they like.
const anyLength = 1 << 30

// FitProbability returns how probable it is that a sequence's text fits on the positions of its
// language: its share among the texts of any length, in the latest pass. Where no pass has computed
// the last positions, it is that of texts whose shortest rest fits on them.
//
// It does not depend on how many positions may follow.
func (m *Marginals) FitProbability(index int) (float64, error) {
	q := m.Sequence(index)
	w := q.chainOf(1, false)
	w.idle = 0
	if !w.isRead {
		if err := m.readEvidence(q, index, w); err != nil {
			return 0, err
		}
	}

	computed := len(q.tokens)
	for computed > 0 && q.tokens[computed-1] == q.Mask && w.evidence[computed-1] == nil {
		computed--
	}
	endless := *q.Language
	endless.Beyond = anyLength
	c := &m.fit
	if !c.readEvidence(&endless, q.tokens[:computed], q.Mask, w.evidence) {
		return 1, nil // no text has these tokens, which the sums report
	}
	c.restartForward()
	c.seekForward(computed)

	left := int32(len(q.tokens) - computed)
	fitting := 0.0
	whole := 0.0
	for i, state := range c.states[computed] {
		whole += c.forward[i]
		if endless.MinTokens[state] <= left {
			fitting += c.forward[i]
		}
	}
	return fitting / whole, nil
}

// GoOn makes the sequence's text go on behind its positions, on as many at most as are given, and
// reports whether it can.
func (q *Sequence) GoOn(positions int) bool {
	longer := *q.Language
	longer.Beyond = positions
	if !longer.completes(q.tokens, q.Mask) {
		return false
	}
	q.Language = &longer
	for _, w := range q.powers {
		w.best = w.best[:0]
		q.Sums.drop(w)
	}
	return true
}
