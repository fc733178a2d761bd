package generate

import (
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
	unused int // positions of the request that the text does not begin with, until the first step
}

// newLengthLoop shortens a new member to the first `start` masks.
func newLengthLoop(m *member, start int) lengthLoop {
	l := lengthLoop{wholeLoop: wholeLoop{member: m}}
	if len(m.free) == 0 {
		return l
	}
	n := min(m.free[0]+start, len(m.Tokens))
	l.unused = len(m.Tokens) - n
	m.Tokens, m.past, m.left = m.Tokens[:n], m.past[:n], n-m.free[0]
	m.shape, m.start, m.free = []int{n}, m.start[:n], m.free[:m.left]
	return l
}

func (l *lengthLoop) next() span { return l.all() }

func (l *lengthLoop) quota() int { return len(l.step.masked) }

func (l *lengthLoop) check() error { return nil }

func (l *lengthLoop) advance() {
	first := slices.Repeat([]Resize{{Position: len(l.Tokens)}}, l.unused)
	l.unused = 0
	if s := l.step.opening.Stretch; s != nil {
		l.stretch(s)
	} else {
		l.resize(nil)
	}
	l.Resized = append(first, l.Resized...)
}

// stretch changes the length as a sampler asks.
func (l *lengthLoop) stretch(s *samplers.Stretch) {
	var list []Resize
	n := len(l.Tokens)
	if s.Masks > 0 {
		list, n = append(list, Resize{s.Position, s.Masks}), n+s.Masks-1
	}
	if len(s.Append) > 0 {
		list, n = append(list, Resize{n, len(s.Append)}), n+len(s.Append)
	}
	for range s.Cut {
		n--
		list = append(list, Resize{n, 0})
	}
	l.resize(list)
	for i, t := range s.Append {
		if p := n - len(s.Append) + i; t != l.mask {
			l.Tokens[p] = t
			l.Opened = append(l.Opened, OpenedPosition{Position: p, Token: t, LogP: math.NaN()})
			l.left--
		}
	}
}

// resize makes changes of the sequence's length, after which its new positions are masked. What the
// step opened and what guidance hides move with their positions.
func (m *member) resize(list []Resize) {
	from := ApplyResizes(model.Indexes(0, len(m.Tokens)), list, -1) // the old positions
	m.Tokens = ApplyResizes(slices.Clone(m.Tokens), list, m.mask)
	m.past = ApplyResizes(slices.Clone(m.past), list, 0)
	m.shape, m.start = []int{len(m.Tokens)}, ApplyResizes(slices.Clone(m.start), list, m.mask)
	m.free = maskedIn(m.start, m.mask)
	if c := m.Condition; c != nil && len(c.KnownPositions) > 0 {
		moved := *c
		moved.KnownPositions = nil
		for p, old := range from {
			if slices.Contains(c.KnownPositions, int32(old)) {
				moved.KnownPositions = append(moved.KnownPositions, int32(p))
			}
		}
		m.Condition = &moved
	}
	for i := range m.Opened {
		m.Opened[i].Position = slices.Index(from, m.Opened[i].Position)
	}
	m.Opened = slices.DeleteFunc(m.Opened, func(o OpenedPosition) bool { return o.Position < 0 })
	m.Resized, m.Sequence.Tokens = list, m.Tokens
	m.left = m.masked()
}

// resizes returns an error for a request whose length cannot change, although it should.
func (r *Request) resizes(spec model.Spec) error {
	if !samplers.Is[samplers.Resizer](r.Sampler) || len(r.EndTokens) == 0 {
		return nil
	}
	refused := func(why string) error {
		return param.Refuse("sampler", param.Unsupported, "sampler is %s, want another one: %s",
			samplers.Text(r.Sampler), why)
	}
	if spec.Fixed {
		return refused("this model's sequences have one length")
	}
	known := r.StartTokens(spec)
	if first := slices.Index(known, spec.Mask); first >= 0 &&
		slices.ContainsFunc(known[first:], func(t int32) bool { return t != spec.Mask }) {
		return refused("something is known behind a mask")
	}
	return nil
}
