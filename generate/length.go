package generate

import (
	"fmt"
	"math"
	"slices"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// lengthLoop is for a samplers.Resizer: the text begins with few masks, and after each step the
// sampler may let it grow, up to the request's length, or cut its end.
type lengthLoop struct {
	wholeLoop

	// unusedPositions is the number of positions of the request that the text does not begin with.
	// The first step reports them as removed.
	unusedPositions int
}

// newLengthLoop shortens a new member to its first masks, `start` of them, and returns its loop.
func newLengthLoop(m *member, start int) lengthLoop {
	l := lengthLoop{wholeLoop: wholeLoop{member: m}}
	if len(m.free) == 0 {
		return l
	}
	n := min(m.free[0]+start, len(m.Tokens))
	l.unusedPositions = len(m.Tokens) - n
	m.maskedLeft = n - m.free[0]
	m.Tokens = m.Tokens[:n]
	m.past = m.past[:n]
	m.shape = []int{n}
	m.startTokens = m.startTokens[:n]
	m.free = m.free[:m.maskedLeft]
	return l
}

func (l *lengthLoop) nextSpan() span { return l.wholeSpan() }

func (l *lengthLoop) quota() int { return len(l.step.masked) }

// checkOpening returns an error for a change of the length that takes back what is settled.
func (l *lengthLoop) checkOpening() error {
	s := l.step.opening.Stretch
	if s == nil {
		return nil
	}
	length := len(l.Tokens) + len(s.Append) - s.Cut
	if s.Masks > 0 {
		length += s.Masks - 1
	}
	if length < l.Settled {
		return fmt.Errorf("the sampler cuts %d positions off the end, want fewer: the first %d are "+
			"settled", s.Cut, l.Settled)
	}
	if s.Masks > 0 && (s.Position < l.Settled || s.Position >= len(l.Tokens)) {
		return fmt.Errorf("the sampler makes position %d %d masks, want one of %d to %d", s.Position,
			s.Masks, l.Settled, len(l.Tokens)-1)
	}
	return nil
}

// advance implements loop: it makes the change of length that the sampler has asked for in this
// step.
func (l *lengthLoop) advance() {
	shortened := slices.Repeat([]Resize{{Position: len(l.Tokens)}}, l.unusedPositions)
	l.unusedPositions = 0
	if s := l.step.opening.Stretch; s != nil {
		l.applyStretch(s)
	} else {
		l.applyResizes(nil)
	}
	l.Resized = append(shortened, l.Resized...)
}

// applyStretch changes the length as a sampler asks.
func (l *lengthLoop) applyStretch(s *samplers.Stretch) {
	var list []Resize
	n := len(l.Tokens)
	if s.Masks > 0 {
		list = append(list, Resize{Position: s.Position, Into: s.Masks})
		n += s.Masks - 1
	}
	if len(s.Append) > 0 {
		list = append(list, Resize{Position: n, Into: len(s.Append)})
		n += len(s.Append)
	}
	for range s.Cut {
		n--
		list = append(list, Resize{Position: n, Into: 0})
	}
	l.applyResizes(list)

	// Of what is appended, the tokens are open at once. No pass has said how probable they are.
	for i, t := range s.Append {
		if t == l.mask {
			continue
		}
		p := n - len(s.Append) + i
		l.Tokens[p] = t
		l.Opened = append(l.Opened, OpenedPosition{Position: p, Token: t, LogP: math.NaN()})
		l.maskedLeft--
	}
}

// applyResizes makes changes of the sequence's length, after which its new positions are masked.
// What the step opened and what guidance hides move with their positions. The layout becomes the
// member's own: other members share the task's.
func (m *member) applyResizes(list []Resize) {
	// oldPositions has where each position was before, -1 for the new ones.
	oldPositions := ApplyResizes(model.Indexes(0, len(m.Tokens)), list, -1)
	m.Tokens = ApplyResizes(slices.Clone(m.Tokens), list, m.mask)
	m.past = ApplyResizes(slices.Clone(m.past), list, 0)
	m.shape = []int{len(m.Tokens)}
	m.startTokens = ApplyResizes(slices.Clone(m.startTokens), list, m.mask)
	m.free = maskedPositions(m.startTokens, m.mask)

	if c := m.Condition; c != nil && len(c.KnownPositions) > 0 {
		moved := *c // the condition is the request's, which other members may have too
		moved.KnownPositions = nil
		for p, old := range oldPositions {
			if slices.Contains(c.KnownPositions, int32(old)) {
				moved.KnownPositions = append(moved.KnownPositions, int32(p))
			}
		}
		m.Condition = &moved
	}

	for i := range m.Opened {
		m.Opened[i].Position = slices.Index(oldPositions, m.Opened[i].Position)
	}
	m.Opened = slices.DeleteFunc(m.Opened, func(o OpenedPosition) bool { return o.Position < 0 })
	m.Resized = list
	m.Sequence.Tokens = m.Tokens
	m.maskedLeft = m.countMasked()
}

// checkResizing returns an error for a request whose length cannot change, although it should.
func (r *Request) checkResizing(spec model.Spec) error {
	if !samplers.Is[samplers.Resizer](r.Sampler) || len(r.EndTokens) == 0 {
		return nil
	}
	refuse := func(why string) error {
		return param.Refuse("sampler", param.Unsupported, "sampler is %s, want another one: %s",
			samplers.Text(r.Sampler), why)
	}
	if spec.Fixed {
		return refuse("this model's sequences have one length")
	}
	start := r.StartTokens(spec)
	first := slices.Index(start, spec.Mask)
	if first < 0 {
		return nil
	}
	if slices.ContainsFunc(start[first:], func(t int32) bool { return t != spec.Mask }) {
		return refuse("something is known behind a mask")
	}
	return nil
}
