package generate

import "slices"

// draftLoop is for a samplers.Proposer. A step's pass is over drafts, each a member of its own that
// only this loop knows: what the drafts' samplers choose says which of them are right.
//
// Draft i has the first i+1 proposed tokens in place. If the marginals of draft i choose the
// proposed token i+1 too, that token is what decoding one by one would have opened next, so one
// pass can open several.
type draftLoop struct {
	wholeLoop

	// draftsPerPass is the most drafts of a pass.
	draftsPerPass int

	// proposed are the positions that the last right draft's marginals open one after the other, and
	// proposedFor the tokens of the sequence for which they were proposed.
	proposed    []OpenedPosition
	proposedFor []int32

	// drafts are the drafts of the step: draft i has opened the first i+1 proposed, or nothing if
	// none are proposed.
	drafts []*member
}

// prepareDrafts returns the drafts of the step. A draft that leaves no mask in its block decides
// nothing and is left out, unless it is the first.
func (l *draftLoop) prepareDrafts() []*member {
	m := l.member
	if !slices.Equal(l.proposedFor, m.Tokens) { // somebody changed the tokens
		l.proposed = l.proposed[:0]
	}
	n := len(l.proposed)
	if n == len(m.step.masked) {
		n--
	}
	count := max(n, 1)
	for len(l.drafts) < count {
		l.drafts = append(l.drafts, new(member))
	}
	l.drafts = l.drafts[:count]
	for i, d := range l.drafts {
		l.startDraft(d, l.proposed[:min(i+1, n)])
	}
	return l.drafts
}

// startDraft makes d a draft: the member as it would be if it had opened some positions in this
// step. It has no place among the keys and values, and shares with the member what no step changes.
func (l *draftLoop) startDraft(d *member, opened []OpenedPosition) {
	m := l.member
	*d = member{
		task:        m.task,
		layout:      m.layout,
		place:       noPlace,
		past:        m.past,
		stepsBefore: m.stepsBefore,
		maskedLeft:  m.maskedLeft - len(opened),
		loop:        reuseLoop(d.loop, wholeLoop{member: d}),
		Tokens:      append(d.Tokens[:0], m.Tokens...),
		Sequence:    Sequence{Index: m.Index, N: m.N, Steps: m.Steps},
		step:        d.step.emptied(),
	}
	d.step.span = m.step.span
	d.step.need = m.step.need
	d.step.steps = d.step.step + 1 // so it is never the last step, which opens everything
	for _, o := range opened {
		d.Tokens[o.Position] = o.Token
	}
	for _, p := range m.step.masked {
		if d.Tokens[p] == m.mask {
			d.step.masked = append(d.step.masked, p)
		}
	}
	d.step.quota = min(l.draftsPerPass, len(d.step.masked))
}

// collectDrafts sets what the step opens: what the right drafts have opened, and a block's last
// position.
func (l *draftLoop) collectDrafts() {
	s := &l.step
	for _, d := range l.drafts {
		s.work.Add(d.step.work)
		if d.step.fault != nil && s.fault == nil {
			s.fault = d.step.fault
		}
	}
	if s.fault != nil {
		return
	}

	right := l.countRight()
	s.work.Drafted += len(l.proposed)
	s.work.Accepted += right
	s.pending = append(s.pending[:0], l.proposed[:right]...)
	l.proposed = l.proposed[:0]
	left := len(s.masked) - right
	if left > 0 {
		lastRight := l.drafts[max(right, 1)-1]
		l.proposed = append(l.proposed, lastRight.step.pending...)
	}
	if left == 1 { // nothing is left to check it with
		s.pending = append(s.pending, l.proposed...)
		l.proposed = l.proposed[:0]
	}
}

// countRight returns the number of proposed positions, from the first, that the drafts confirm. The
// first needs no draft: it was chosen with the tokens that are in place.
func (l *draftLoop) countRight() int {
	right := min(1, len(l.proposed))
	for right > 0 && right < len(l.proposed) {
		chosen := l.drafts[right-1].step.pending[0]
		proposed := l.proposed[right]
		if chosen.Position != proposed.Position || chosen.Token != proposed.Token {
			break
		}
		right++
	}
	return right
}

func (l *draftLoop) checkOpening() error { return nil }

func (l *draftLoop) advance() { l.proposedFor = append(l.proposedFor[:0], l.Tokens...) }
