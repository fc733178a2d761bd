package generate

import (
	"slices"

	"unmask/internal/philox"
	"unmask/model"
)

// specLoop decodes left to right and lets the network draft (Nemotron-Labs-Diffusion, linear
// self-speculation). A step is one pass:
//
//   - over the tokens that became final, up to the first mask, which opens;
//   - over the last final token and masks after it: tokens for these are drafted, nothing opens;
//   - over the same positions with the drafts in place, causally: it draws the tokens that
//     left-to-right decoding draws, up to and including the first that differs from its draft.
//
// Drafted tokens are never in the sequence before they were checked.
type specLoop struct {
	*member
	from, block        int // sizes of a draft
	theta, temperature float64

	window int     // size of the next draft
	at     int     // position of the draft's first token, which is final
	draft  []int32 // the draft, with masks; empty: none
	drafts bool    // the step drafts
	right  int     // tokens of the draft that the step's check found right
}

func (l *specLoop) next() span {
	l.recheck()
	first, final := l.firstMask(), len(l.cached)
	l.again, l.drafts = false, false
	if len(l.draft) > 0 && l.at+1 != first { // somebody changed the tokens
		l.draft = l.draft[:0]
	}
	switch {
	case first == 0: // nothing to begin with: the position sees itself alone
		s := l.over(0, 1, 1)
		s.how, s.fixed = model.Fill, true
		return s
	case first > final+1 || final == 0:
		return l.commitTo(first)
	case len(l.draft) == 0:
		l.begin(final)
	}
	end := l.at + len(l.draft)
	if slices.Contains(l.draft, l.mask) {
		l.again, l.drafts = true, true
		s := l.over(first, first, end)
		s.how, s.quiet = model.Draft, true
		return s
	}
	s := l.over(l.at+1, min(end+1, len(l.Tokens)), end)
	s.fixed = true
	return s
}

// begin begins a draft after the final token at a position.
func (l *specLoop) begin(at int) {
	size := min(l.window, len(l.Tokens)-at)
	if l.from < l.block { // a window that grows ends with the sequence
		size = min(size, len(l.Sequence.Tokens)-at-1)
	}
	l.at, l.draft = at, append(l.draft[:0], l.Tokens[at:at+size]...)
}

func (l *specLoop) quota() int { return len(l.step.masked) }

// overlay puts the draft into the tokens of a pass.
func (l *specLoop) overlay(tokens []int32) {
	if len(l.draft) > 0 {
		copy(tokens[l.at:], l.draft)
	}
}

// reads returns the positions whose marginals a drafting step needs.
func (l *specLoop) reads() (positions []int) {
	if l.drafts {
		for i, t := range l.draft {
			if t == l.mask {
				positions = append(positions, l.at+i)
			}
		}
	}
	return positions
}

// drafted draws tokens for the draft's masks: all, or those probable enough and at least one.
func (l *specLoop) drafted(p *Pool) error {
	positions := l.reads()
	rows := make([]int32, len(positions))
	for i, at := range positions {
		rows[i] = int32(l.step.row*p.pass.of.Length + at)
	}
	n := len(rows)
	stats := model.Stats{P1: make([]float64, n), Arg: make([]int32, n)}
	if err := p.marginals(l.member).Stats(rows, &stats); err != nil {
		return err
	}
	l.step.work.Head += n
	token := stats.Arg
	if l.temperature != 0 && !l.Greedy {
		d := model.Draw{Power: 1 / l.temperature, Uniform: make([]float64, n), Token: make([]int32, n)}
		for i, at := range positions {
			d.Uniform[i] = l.stream().Uniform(at, philox.Token)
		}
		if err := p.marginals(l.member).Sample(rows, &d); err != nil {
			return err
		}
		l.step.work.Head += n
		token = d.Token
	}
	best := 0
	for i, q := range stats.P1 {
		if q > stats.P1[best] {
			best = i
		}
	}
	for i, at := range positions {
		if l.theta == 0 || stats.P1[i] >= l.theta || i == best {
			l.draft[at-l.at] = token[i]
		}
	}
	return nil
}

func (l *specLoop) kept() {
	l.step.work.Partial += l.step.fed
	if l.step.how == model.Commit && len(l.draft) == 0 {
		l.cached = append(l.cached[:0], l.Tokens[:l.step.seen]...)
	}
}

// accept keeps, of the tokens that a checking step drew, those up to and including the first that
// differs from its draft.
func (l *specLoop) accept() {
	s := &l.step
	if l.drafts || len(l.draft) == 0 {
		return
	}
	own := map[int]OpenedPosition{}
	for _, o := range s.pending {
		own[o.Position] = o
	}
	s.pending = s.pending[:0]
	for l.right = 0; ; l.right++ {
		at := l.at + 1 + l.right
		o, open := own[at]
		if open {
			s.pending = append(s.pending, o)
		}
		if i := at - l.at; i >= len(l.draft) || open && o.Token != l.draft[i] {
			break
		}
	}
	s.work.Drafted += len(l.draft) - 1
	s.work.Accepted += l.right
}

func (l *specLoop) advance() {
	l.again = false
	if l.drafts || len(l.draft) == 0 {
		return
	}
	size, took := len(l.draft), l.right+1
	l.cached = append(l.cached[:0], l.Tokens[:min(l.at+took, len(l.Tokens))]...)
	l.draft = l.draft[:0]
	switch {
	case took == size:
		l.window = min(l.block, 2*l.window)
	case took <= max(1, size/2):
		l.window = max(l.from, l.window/2)
	}
}

// maxSteps returns the most steps for a number of masks.
func (l *specLoop) maxSteps(free int) int {
	if l.theta == 0 {
		return 1 + 2*free
	}
	return 1 + (l.block+1)*free
}
