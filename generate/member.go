package generate

import (
	"math"
	"slices"

	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// member is a sequence's place in a pool. Its memory is used again by later ones.
type member struct {
	*task
	Sequence
	condition *model.Condition
	place     int  // of its keys and values, or nowhere
	waits     bool // it takes no part in the step

	left  int       // free positions that are masked
	past  []float64 // [length]
	state any       // the sampler's
	block block     // of Reuse Blocks

	// Of Reuse: what keys and values are for.
	cache struct {
		tokens     []int32 // [length] that they were computed from; empty: there are none
		step, from int     // step and block of the last full pass
	}
	now
}

// now is a member's work of one step.
type now struct {
	window
	masked  []int // positions that may open
	open    []int // positions that a sampler may close or replace
	need    samplers.Need
	ranking samplers.Ranking
	device  bool // the device chooses, by ranking
	decided bool // which positions open is known
	row     int  // of the batch
	fed     int  // rows of the pass
	at      int  // where its masked rows begin in the head's work
	topAt   int  // where its open rows do, where their largest probabilities are needed
	openAt  int  // where its open rows do
	opening samplers.Opening
	ends    []int // of the stages in opening.Positions
	drawn   int   // stages whose tokens are there
	pending []Opened
	work    Evaluated
	fault   error
}

// window is the part of task.free that may open at a step, and how far the sequence is in it.
type window struct {
	step, of int
	from, to int
}

// span is how many positions the schedule is of.
func (m *member) span() int {
	if m.Reuse == Blocks {
		return m.size
	}
	return m.to - m.from
}

// begin finds what the next step is for.
func (m *member) begin(mask int32) {
	m.window = m.next(mask)
	m.now = now{window: m.window, masked: m.masked[:0], open: m.open[:0], ends: m.ends[:0],
		pending: m.pending[:0]}
	for _, p := range m.free[m.from:m.to] {
		if m.Tokens[p] == mask {
			m.masked = append(m.masked, p)
		} else if m.remasks || m.post >= 0 {
			m.open = append(m.open, p)
		}
	}
	if _, idles := m.Schedule.(samplers.Idler); idles && !m.adapts && m.Reuse != Blocks &&
		m.quota() == 0 {
		m.masked = m.masked[:0] // the step opens nothing, and needs no pass
	}
	m.need = m.Sampler.Needs(m.step, m.of)
}

// next is the window of the next step.
func (m *member) next(mask int32) window {
	if m.Reuse == Blocks {
		return m.nextBlock(mask)
	}
	n, free, b := m.N+1, len(m.free), 0
	if m.blocks > 1 && m.adapts { // the first block with anything masked
		for i, p := range m.free {
			if m.Tokens[p] == mask {
				b = ((i+1)*m.blocks - 1) / free
				break
			}
		}
	} else if m.blocks > 1 {
		b = (n*m.blocks - 1) / m.steps
	}
	w := window{step: n, of: m.steps, from: b * free / m.blocks, to: (b + 1) * free / m.blocks}
	if !m.adapts {
		begin := b * m.steps / m.blocks
		w.step, w.of = n-begin, (b+1)*m.steps/m.blocks-begin
	}
	return w
}

// quota is how many positions the schedule opens.
func (m *member) quota() int {
	if m.Reuse == Blocks {
		return m.blockQuota()
	}
	masked := len(m.masked)
	if m.step >= m.of {
		return masked
	}
	open := samplers.Open(m.Schedule, float64(m.step), m.of, m.span())
	least := min(1, masked)
	if _, ok := m.Schedule.(samplers.Idler); ok {
		least = 0
	}
	return max(least, min(open-(m.span()-masked), masked))
}

func (m *member) stream() philox.Stream {
	return philox.Stream{Seed: m.seed, Sequence: uint32(m.Index), Step: uint32(m.N + 1)}
}

// power is the exponent of the step's draws.
func (m *member) power() float64 { return orOne(m.opening.Power) }

// commit makes a computed step the state of the sequence, or its fault its end.
func (m *member) commit(mask int32) {
	m.Opened, m.Closed, m.Replaced = m.Opened[:0], m.Closed[:0], m.Replaced[:0]
	m.Finished = false
	if m.fault != nil {
		m.fail(m.fault)
		return
	}
	if len(m.free) > 0 {
		m.N++
	}
	m.Opened = append(m.Opened, m.pending...)
	m.Closed = append(m.Closed, m.opening.Close...)
	for _, o := range m.pending {
		m.Tokens[o.Position] = o.Token
		m.past[o.Position] = o.LogP
	}
	for j, p := range m.opening.Replace {
		token := m.opening.Replacement[j]
		m.Replaced = append(m.Replaced, Opened{Position: p, Token: token, LogP: math.NaN()})
		m.Tokens[p] = token
	}
	for _, p := range m.opening.Close {
		m.Tokens[p] = mask
		m.past[p] = 0
	}
	m.left += len(m.Closed) - len(m.Opened)
	m.Evaluated.Full += m.work.Full
	m.Evaluated.Partial += m.work.Partial
	m.Evaluated.Head += m.work.Head
	if m.Reuse == Blocks && len(m.free) > 0 {
		m.blockDone(mask)
	}
	m.stop(mask)
	m.finish()
}

// stop fills the sequence where all before one of task.stops is open.
func (m *member) stop(mask int32) {
	if len(m.stops) == 0 {
		return
	}
	for i, p := range m.free {
		switch t := m.Tokens[p]; {
		case t == mask:
			return
		case slices.Contains(m.stops, t):
			m.fill(i+1, mask, t)
			return
		}
	}
}

// fill puts a token at the masked ones of task.free from index first on.
func (m *member) fill(first int, mask, token int32) {
	for _, p := range m.free[first:] {
		if m.Tokens[p] == mask {
			m.Tokens[p], m.past[p] = token, 0
			m.Opened = append(m.Opened, Opened{Position: p, Token: token, LogP: math.NaN()})
			m.left--
		}
	}
}

func (m *member) finish() {
	m.Done = m.N >= m.steps || m.left == 0 && !m.remasks && !m.block.again
	m.Finished = m.Done
}

// fail ends the sequence.
func (m *member) fail(err error) { m.Err, m.Done, m.Finished = err, true, true }

// edited brings the state up to date with tokens that a caller changed.
func (m *member) edited(spec model.Spec) error {
	if err := checkRange(m.Tokens, spec); err != nil {
		return err
	}
	m.left = 0
	for _, p := range m.free {
		if m.Tokens[p] == spec.Mask {
			m.left++
		}
	}
	m.finish()
	return nil
}
