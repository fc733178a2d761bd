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

	// minDraft and maxDraft are the sizes of the smallest and the largest draft, in positions.
	minDraft int
	maxDraft int

	// threshold is the probability from which a drafted token is kept; 0 keeps all. temperature is
	// that of drafts; 0 takes the most probable tokens.
	threshold   float64
	temperature float64

	// nextSize is the size of the next draft. It grows while drafts are right.
	nextSize int

	// draft has the final token at draftStart and, after it, drafted tokens and masks. Empty means
	// that there is none.
	draft      []int32
	draftStart int

	// isDrafting means that the step fills the draft and opens nothing.
	isDrafting bool

	// acceptedCount is the number of tokens of the draft that the step's check found right.
	acceptedCount int
}

// nextSpan implements loop. A step either fills the masks of a draft, or checks the draft's tokens
// and opens those that are right, or computes the keys and values of tokens that have none yet.
func (l *specLoop) nextSpan() span {
	l.dropStaleCached()
	first := l.firstMask()
	final := len(l.cached)
	l.needsStep = false
	l.isDrafting = false
	if len(l.draft) > 0 && l.draftStart+1 != first { // somebody changed the tokens
		l.draft = l.draft[:0]
	}

	if first == 0 { // nothing to begin with: the position sees itself alone
		s := l.spanOver(0, 1, 1)
		s.feeding = model.Fill
		s.drawsByPosition = true
		return s
	}
	if first > final+1 || final == 0 {
		return l.commitSpan(first)
	}
	if len(l.draft) == 0 {
		l.beginDraft(final)
	}
	end := l.draftStart + len(l.draft)
	if slices.Contains(l.draft, l.mask) {
		l.needsStep = true
		l.isDrafting = true
		s := l.spanOver(first, first, end)
		s.feeding = model.Draft
		s.skipsSampler = true
		return s
	}
	s := l.spanOver(l.draftStart+1, min(end+1, len(l.Tokens)), end)
	s.drawsByPosition = true
	return s
}

// beginDraft begins a draft after the final token at a position.
func (l *specLoop) beginDraft(position int) {
	size := min(l.nextSize, len(l.Tokens)-position)
	if l.minDraft < l.maxDraft { // drafts that grow end with the sequence
		size = min(size, len(l.Sequence.Tokens)-position-1)
	}
	l.draftStart = position
	l.draft = append(l.draft[:0], l.Tokens[position:position+size]...)
}

// quota is all positions: acceptDraft drops what left-to-right decoding does not open.
func (l *specLoop) quota() int { return len(l.step.masked) }

// insertDraft puts the draft into the tokens of a pass.
func (l *specLoop) insertDraft(tokens []int32) {
	if len(l.draft) > 0 {
		copy(tokens[l.draftStart:], l.draft)
	}
}

// draftMasks returns the masked positions of the draft, whose marginals a drafting step needs; nil
// in other steps.
func (l *specLoop) draftMasks() (positions []int) {
	if !l.isDrafting {
		return nil
	}
	for i, t := range l.draft {
		if t == l.mask {
			positions = append(positions, l.draftStart+i)
		}
	}
	return positions
}

// fillDraft draws tokens for the draft's masks: all, or those probable enough and at least one.
func (l *specLoop) fillDraft(p *Pool) error {
	positions := l.draftMasks()
	n := len(positions)
	rows := make([]int32, n)
	for i, position := range positions {
		rows[i] = int32(l.step.batchIndex*p.pass.readBatch.Length + position)
	}
	stats := model.Stats{P1: make([]float64, n), Arg: make([]int32, n)}
	if err := p.marginalsOf(l.member).Stats(rows, &stats); err != nil {
		return err
	}
	l.step.work.Head += n

	tokens := stats.Arg
	if l.temperature != 0 && !l.Greedy {
		d := model.Draw{
			Power:   1 / l.temperature,
			Uniform: make([]float64, n),
			Token:   make([]int32, n),
		}
		for i, position := range positions {
			d.Uniform[i] = l.randomStream().Uniform(position, philox.Token)
		}
		if err := p.marginalsOf(l.member).Sample(rows, &d); err != nil {
			return err
		}
		l.step.work.Head += n
		tokens = d.Token
	}

	best := 0 // at least one token is kept, so that the draft is full at some time
	for i, p1 := range stats.P1 {
		if p1 > stats.P1[best] {
			best = i
		}
	}
	for i, position := range positions {
		if l.threshold == 0 || stats.P1[i] >= l.threshold || i == best {
			l.draft[position-l.draftStart] = tokens[i]
		}
	}
	return nil
}

// recordPass records the tokens of a pass that commits. A pass that checks a draft has computed
// keys and values of tokens that may be wrong; advance records those that were right.
func (l *specLoop) recordPass() {
	l.step.work.Partial += l.step.computedRows
	if l.step.feeding == model.Commit && len(l.draft) == 0 {
		l.cached = append(l.cached[:0], l.Tokens[:l.step.visible]...)
	}
}

// acceptDraft keeps, of the tokens that a checking step drew, those up to and including the first
// that differs from its draft. That one is still right: it was drawn after right tokens.
func (l *specLoop) acceptDraft() {
	s := &l.step
	if l.isDrafting || len(l.draft) == 0 {
		return
	}
	drawn := map[int]OpenedPosition{}
	for _, o := range s.pending {
		drawn[o.Position] = o
	}

	s.pending = s.pending[:0]
	l.acceptedCount = 0
	for i := 1; ; i++ { // index in the draft, whose first token is final
		o, opens := drawn[l.draftStart+i]
		if opens {
			s.pending = append(s.pending, o)
		}
		if i >= len(l.draft) || opens && o.Token != l.draft[i] {
			break
		}
		l.acceptedCount++
	}
	s.work.Drafted += len(l.draft) - 1
	s.work.Accepted += l.acceptedCount
}

// advance implements loop. After a check the draft is over: what was right is kept, and the next
// draft is twice as large if all of it was, and half as large if half or less was.
func (l *specLoop) advance() {
	l.needsStep = false
	if l.isDrafting || len(l.draft) == 0 {
		return
	}
	size := len(l.draft)
	computed := l.acceptedCount + 1 // positions of the draft whose keys and values are right
	end := min(l.draftStart+computed, len(l.Tokens))
	l.cached = append(l.cached[:0], l.Tokens[:end]...)
	l.draft = l.draft[:0]
	switch {
	case computed == size:
		l.nextSize = min(l.maxDraft, 2*l.nextSize)
	case computed <= max(1, size/2):
		l.nextSize = max(l.minDraft, l.nextSize/2)
	}
}

// stepBound returns the most steps for a number of masks: for each token a step that drafts and one
// that checks or, with a threshold, one that drafts for each position of a draft.
func (l *specLoop) stepBound(masked int) int {
	if l.threshold == 0 {
		return 1 + 2*masked
	}
	return 1 + (l.maxDraft+1)*masked
}
