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

// member is a sequence in a pool. Later sequences reuse its memory.
type member struct {
	*task
	Sequence
	// the tokens that passes work on: Sequence.Tokens and, for some loops, positions after its end
	Tokens []int32
	layout // the task's, unless the loop changes the sequence's length
	loop   loop
	place  int  // index of its keys and values in the cache, or nowhere
	waits  bool // it does not take part in the step

	left   int                 // number of masked free positions
	past   []float64           // [length] what the sampler remembers of each position
	state  any                 // the sampler's state
	again  bool                // it takes a step even if nothing is masked
	cached []int32             // tokens that the kept keys and values were computed from
	prefix kvcache.Prefix      // of cached, until it has a place
	speech *constrain.Sequence // with a language
	step   stepState
}

// stepState is a member's work in one step.
type stepState struct {
	span
	quota    int     // number of positions that the schedule opens
	penalty  float64 // is added to the logits of the text's end
	masked   []int   // positions that may open
	open     []int   // positions that a sampler may close or replace
	need     samplers.Need
	ranking  samplers.Ranking
	device   bool // the device chooses, by ranking
	checked  bool // the latest pass checked a run: its marginals are the shadows'
	decided  bool // the positions to open are known
	row      int  // index in the batch
	shadowAt int  // where the shadows are behind the sequence's own positions
	fed      int  // rows in the pass
	maskedAt int  // index of its first masked row in the head's work
	openAt   int  // index of its first open row
	opening  samplers.Opening
	stages   []int // ends of the stages in opening.Positions
	drawn    int   // number of stages whose tokens are drawn
	pending  []OpenedPosition
	earlier  map[int][]TopToken // by position, of a pass before the latest
	work     Work
	fault    error
}

// empty returns a state with the same memory.
func (s *stepState) empty() stepState {
	return stepState{masked: s.masked[:0], open: s.open[:0], stages: s.stages[:0],
		pending: s.pending[:0]}
}

// begin prepares the member's next step.
func (m *member) begin() {
	m.step = m.step.empty()
	if m.speech != nil {
		m.speech.BeginStep()
	}
	s := &m.step
	s.span = m.loop.next()
	for _, p := range m.free[s.from:s.to] {
		switch {
		case m.Tokens[p] != m.mask:
			if m.revises {
				s.open = append(s.open, p)
			}
		case p < s.end:
			s.masked = append(s.masked, p)
		}
	}
	if s.quota = m.loop.quota(); s.quota == 0 && m.idles {
		s.masked = s.masked[:0] // the step opens nothing, so it needs no pass
	}
	if m.EndPenalty != 0 {
		s.penalty = m.EndPenalty * math.Log(1-m.time()+penaltyEps)
	}
	if !s.quiet {
		s.need = samplers.NeedsFor(m.Sampler, s.n, s.of, s.quota)
	}
}

func (m *member) stream() philox.Stream {
	step := uint32(m.N + 1)
	if m.step.fixed {
		step = 0
	}
	return philox.Stream{Seed: m.Seed, Sequence: uint32(m.Index), Step: step}
}

// penaltyEps is the last time of Dream's steps, and what keeps a penalty at the first finite.
const penaltyEps = 1e-3

// time returns the time of the step for EndPenalty.
func (m *member) time() float64 {
	if m.adapts {
		return float64(m.left) / float64(len(m.free))
	}
	return 1 - (1-penaltyEps)*float64(m.N)/float64(m.steps)
}

// power returns the exponent of the step's draws.
func (m *member) power() float64 { return cmp.Or(m.step.opening.Power, 1) }

// commit applies a computed step to the sequence, or ends the sequence if the step has a fault.
func (m *member) commit() {
	m.Opened, m.Closed, m.Replaced = m.Opened[:0], m.Closed[:0], m.Replaced[:0]
	m.Resized, m.LengthBefore = m.Resized[:0], len(m.Sequence.Tokens)
	m.Finished = false
	if m.speech != nil {
		m.Choices, m.FilterOverruled = m.speech.Choices, m.speech.FilterOverruled
	}
	s := &m.step
	if s.fault != nil {
		m.fail(s.fault)
		return
	}
	if l, ok := m.loop.(*specLoop); ok {
		l.accept()
	}
	shown := len(m.Sequence.Tokens) // loops may work beyond it
	for _, o := range s.pending {
		if o.Position < shown {
			m.Opened = append(m.Opened, o)
		}
	}
	for _, o := range s.pending {
		m.Tokens[o.Position] = o.Token
		m.past[o.Position] = o.LogP
	}
	for j, p := range s.opening.Replace {
		token := s.opening.Replacement[j]
		if m.Tokens[p] = token; p < shown {
			m.Replaced = append(m.Replaced, OpenedPosition{Position: p, Token: token, LogP: math.NaN()})
		}
	}
	for _, p := range s.opening.Close {
		if m.Tokens[p] = m.mask; p < shown {
			m.Closed = append(m.Closed, p)
		}
		m.past[p] = 0
	}
	m.left += len(m.Closed) - len(m.Opened)
	m.Work.Add(s.work)
	if len(m.free) > 0 {
		m.N++
		m.loop.advance()
	}
	m.settle()
	m.finish()
}

// settle fills the rest of the sequence once everything before a token of task.ends is open, or
// before a position at which the language has nothing but such tokens.
func (m *member) settle() {
	if len(m.ends) == 0 {
		return
	}
	if m.early {
		m.endEarly()
	}
	for i, p := range m.free {
		switch t := m.Tokens[p]; {
		case t == m.mask:
			if m.mustEnd(p) {
				m.fill(i, m.ends[0])
			}
			return
		case m.endsAt(p, m.ends):
			m.fill(i+1, t)
			return
		}
	}
}

// endEarly makes all behind the first open end token that token.
func (m *member) endEarly() {
	first := slices.IndexFunc(m.free, func(p int) bool {
		return m.Tokens[p] != m.mask && m.endsAt(p, m.ends)
	})
	if first < 0 {
		return
	}
	end := m.Tokens[m.free[first]]
	m.fill(first+1, end)
	for _, p := range m.free[first+1:] {
		if m.Tokens[p] != end {
			m.Tokens[p] = end
			m.Replaced = append(m.Replaced, OpenedPosition{Position: p, Token: end, LogP: math.NaN()})
		}
	}
}

// fill writes a token at the masked positions in free from index first on.
func (m *member) fill(first int, token int32) {
	for _, p := range m.free[first:] {
		if m.Tokens[p] == m.mask {
			if m.Tokens[p], m.past[p] = token, 0; p >= len(m.Sequence.Tokens) {
				continue
			}
			m.Opened = append(m.Opened, OpenedPosition{Position: p, Token: token, LogP: math.NaN()})
			m.left--
		}
	}
}

func (m *member) finish() {
	m.Done = m.N >= m.steps || m.left == 0 && !m.again
	m.Finished = m.Done
}

// masked returns the number of masked positions of the sequence that may open.
func (m *member) masked() (n int) {
	for _, p := range m.free {
		if p < len(m.Sequence.Tokens) && m.Tokens[p] == m.mask {
			n++
		}
	}
	return n
}

// filtered reports whether the logits of the member's rows differ from the model's.
func (m *member) filtered() bool {
	return m.task.filtered() || len(m.step.forbid) > 0 || m.step.penalty != 0
}

// fail ends the sequence with an error.
func (m *member) fail(err error) { m.Err, m.Done, m.Finished = err, true, true }

// edit lets the caller change tokens, and updates the state.
func (m *member) edit(spec model.Spec) error {
	own := m.Sequence.Tokens
	if err := m.Edit(&m.Sequence); err != nil {
		return err
	}
	edited := m.Sequence.Tokens
	if m.Sequence.Tokens = own; len(edited) != len(own) {
		return refuse("tokens", param.OutOfRange, "tokens are %d, want %d", len(edited), len(own))
	}
	copy(own, edited)
	if err := CheckTokens("tokens", own, spec); err != nil {
		return err
	}
	m.left = m.masked()
	m.finish()
	return nil
}
