package generate

import "slices"

// draftLoop is for a samplers.Proposer. A step's pass is over drafts, each a member of its own that
// only this loop knows: what the drafts' samplers choose says which of them are right.
type draftLoop struct {
	wholeLoop
	most     int              // drafts of a pass
	proposed []OpenedPosition // what the last right draft's marginals open one after the other
	after    []int32          // the tokens that it belongs to
	drafts   []*member        // draft i of the step has opened the first i+1 proposed, or nothing
}

// children returns the drafts of the step. A draft that leaves no mask in its block decides nothing
// and is left out, unless it is the first.
func (l *draftLoop) children() []*member {
	m := l.member
	if !slices.Equal(l.after, m.Tokens) {
		l.proposed = l.proposed[:0]
	}
	n := len(l.proposed)
	if n == len(m.step.masked) {
		n--
	}
	for len(l.drafts) < max(n, 1) {
		l.drafts = append(l.drafts, new(member))
	}
	l.drafts = l.drafts[:max(n, 1)]
	for i, d := range l.drafts {
		opened := l.proposed[:min(i+1, n)]
		*d = member{task: m.task, layout: m.layout, place: nowhere,
			past: m.past, left: m.left - len(opened), loop: remake(d.loop, wholeLoop{member: d}),
			Tokens: append(d.Tokens[:0], m.Tokens...), Sequence: Sequence{Index: m.Index, N: m.N,
				Steps: m.Steps}, step: d.step.empty()}
		d.step.span, d.step.need = m.step.span, m.step.need
		d.step.of = d.step.n + 1 // it is never the last step
		for _, o := range opened {
			d.Tokens[o.Position] = o.Token
		}
		for _, p := range m.step.masked {
			if d.Tokens[p] == m.mask {
				d.step.masked = append(d.step.masked, p)
			}
		}
		d.step.quota = min(l.most, len(d.step.masked))
	}
	return l.drafts
}

// collect sets what the step opens: what the right drafts have opened, and a block's last position.
func (l *draftLoop) collect() {
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
	right := min(1, len(l.proposed))
	for right > 0 && right < len(l.proposed) {
		next, want := l.drafts[right-1].step.pending[0], l.proposed[right]
		if next.Position != want.Position || next.Token != want.Token {
			break
		}
		right++
	}
	s.work.Drafted += len(l.proposed)
	s.work.Accepted += right
	s.pending = append(s.pending[:0], l.proposed[:right]...)
	l.proposed = l.proposed[:0]
	left := len(s.masked) - right
	if left > 0 {
		pending := l.drafts[max(right, 1)-1].step.pending
		l.proposed = append(l.proposed, pending...)
	}
	if left == 1 {
		s.pending = append(s.pending, l.proposed...)
		l.proposed = l.proposed[:0]
	}
}

func (l *draftLoop) check() error { return nil }

func (l *draftLoop) advance() { l.after = append(l.after[:0], l.Tokens...) }
