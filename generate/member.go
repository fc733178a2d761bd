package generate

import (
	"math"
	"slices"

	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// member is a sequence in a pool. Later sequences reuse its memory.
type member struct {
	*task
	Sequence
	condition *model.Condition
	place     int  // index of its keys and values in the cache, or nowhere
	waits     bool // it does not take part in the step

	left  int       // number of masked free positions
	past  []float64 // [length] what the sampler remembers of each position
	state any       // the sampler's state
	block block     // with Reuse Blocks

	// With Reuse: what the keys and values in the cache belong to.
	cache struct {
		tokens     []int32 // [length] tokens they were computed from; empty: there are none
		step, from int     // step and block of the last full pass
	}
	now
}

// now is a member's work in one step.
type now struct {
	window
	masked  []int // positions that may open
	open    []int // positions that a sampler may close or replace
	need    samplers.Need
	ranking samplers.Ranking
	device  bool // the device chooses, by ranking
	decided bool // the positions to open are known
	row     int  // index in the batch
	fed     int  // rows in the pass
	at      int  // index of its first masked row in the head's work
	openAt  int  // index of its first open row
	opening samplers.Opening
	ends    []int // ends of the stages in opening.Positions
	drawn   int   // number of stages whose tokens are drawn
	pending []Opened
	work    Evaluated
	fault   error
}

// window is the part of task.free that may open at a step, with the steps made and due in it.
type window struct {
	step, of int
	from, to int
}

// span returns the number of positions that the schedule covers.
func (m *member) span() int {
	if m.Reuse == Blocks {
		return m.size
	}
	return m.to - m.from
}

// begin prepares the member's next step.
func (m *member) begin(mask int32) {
	m.window = m.next(mask)
	m.now = now{window: m.window, masked: m.masked[:0], open: m.open[:0], ends: m.ends[:0],
		pending: m.pending[:0]}
	end := len(m.Tokens) // of what the sampler opens
	for _, p := range m.free[m.from:m.to] {
		if m.Tokens[p] == mask {
			if len(m.masked) == 0 && m.Reuse == Blocks {
				_, end, _ = m.part(p)
			}
			if p < end {
				m.masked = append(m.masked, p)
			}
		} else if m.remasks || m.post >= 0 {
			m.open = append(m.open, p)
		}
	}
	if _, idles := m.Schedule.(samplers.Idler); idles && !m.adapts && m.Reuse != Blocks &&
		m.quota() == 0 {
		m.masked = m.masked[:0] // the step opens nothing, so it needs no pass
	}
	m.need = samplers.NeedsFor(m.Sampler, m.step, m.of, m.quota())
}

// next returns the window of the next step.
func (m *member) next(mask int32) window {
	if m.Reuse == Blocks {
		return m.nextBlock(mask)
	}
	n, free, b := m.N+1, len(m.free), 0
	if m.blocks > 1 && m.adapts { // the first block with a masked position
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

// quota returns the number of positions that the schedule opens in the step.
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

// power returns the exponent of the step's draws.
func (m *member) power() float64 { return orOne(m.opening.Power) }

// commit applies a computed step to the sequence, or ends the sequence if the step has a fault.
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

// stop fills the rest of the sequence once everything before a token of task.stops is open.
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

// fill writes a token at the masked positions in task.free from index first on.
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

// fail ends the sequence with an error.
func (m *member) fail(err error) { m.Err, m.Done, m.Finished = err, true, true }

// edited updates the state after a caller changed tokens.
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
