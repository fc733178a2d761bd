package engine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"unmask/generate"
	"unmask/generate/traces"
)

// tick makes one step of each member.
func (e *Engine) tick(picked []*Member) {
	began := e.o.Now()
	rows := e.begin(picked, began)
	var byPool [len(e.pools)][]*Member
	for _, m := range picked {
		byPool[m.pool()] = append(byPool[m.pool()], m)
	}
	for i, members := range byPool {
		e.step(members, i)
	}
	took := e.o.Now().Sub(began).Seconds()
	e.o.Calls.stats.PassDone(took, rows, len(picked))
	for _, c := range e.settle(picked, float64(rows), max(took, 1e-6)) {
		c.mu.Lock()
		c.waited, c.ran = c.begun.Sub(c.Created), e.passed.Sub(c.begun)
		c.mu.Unlock()
		e.o.Calls.finish(c)
	}
}

// begin marks the members' calls as begun and returns the rows of the tick.
func (e *Engine) begin(picked []*Member, now time.Time) (rows int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range picked {
		rows += m.rows
		if c := m.call; c.begun.IsZero() {
			c.begun = now
			e.o.Calls.stats.CallBegan(now.Sub(c.Created))
		}
	}
	return rows
}

// settle updates the engine's rate, a moving average, and what each owner has had and each call has
// left after a tick of rows that took some seconds. It returns the calls that ended.
func (e *Engine) settle(picked []*Member, rows, seconds float64) (ended []*Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passed = e.o.Now()
	switch rate := rows / seconds; {
	case e.rate == 0:
		e.rate = rate
	case !picked[0].heavy(): // that is no measure of a model's passes
		e.rate += (rate - e.rate) / 8
	}
	for _, m := range picked {
		c := m.call
		e.queue.rows[c.queue()] += float64(m.rows) * (e.rate*seconds/rows - 1) // pick has counted rows
		c.stepped = e.passed
		c.left, c.open, c.keeping = 0, 0, false
		for _, o := range c.Members {
			c.keeping = c.keeping || o.holds()
			if c.left += o.left(); !o.done {
				c.open++
			}
		}
		if c.open == 0 && !c.ended {
			c.ended = true
			ended = append(ended, c)
		}
	}
	return ended
}

// step makes one step of members of a pool, by its number. Where that fails, it makes the step for
// each alone, so that only the member that is the cause fails.
func (e *Engine) step(members []*Member, pool int) {
	if len(members) == 0 {
		return
	}
	var in []*generate.Sequence
	owners := map[*generate.Sequence]*Member{}
	p, err := e.pool(pool)
	for _, m := range members {
		if err == nil && m.sequence == nil {
			m.sequence, err = e.join(p, m)
		}
		if err != nil {
			e.fail(m, err)
			err = nil
			continue
		}
		in, owners[m.sequence] = append(in, m.sequence), m
	}
	if len(in) == 0 {
		return
	}
	moved, err := e.try(p, in)
	if err == nil {
		for _, q := range moved {
			e.recordStep(owners[q], q)
		}
		return
	}
	if e.ctx.Err() != nil {
		return
	}
	for _, q := range in {
		if owners[q].done {
			continue
		}
		if len(in) > 1 {
			e.o.Calls.stats.PassRepeated()
			if moved, err = e.try(p, []*generate.Sequence{q}); err == nil {
				if len(moved) > 0 {
					e.recordStep(owners[q], q)
				}
				continue
			}
		}
		e.fail(owners[q], err)
	}
}

// join adds a member to a pool.
func (e *Engine) join(p *generate.Pool, m *Member) (q *generate.Sequence, err error) {
	defer recovered(&err)
	return p.Add(m.Request)
}

// try makes one step. A panic is an error.
func (e *Engine) try(p *generate.Pool, in []*generate.Sequence) (_ []*generate.Sequence,
	err error) {
	defer recovered(&err)
	return p.Step(e.ctx, in...)
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("a step failed: %v", r)
	}
}

// recordStep stores what a step did to a member, and notifies its call.
func (e *Engine) recordStep(m *Member, q *generate.Sequence) {
	if m.done { // another's fault has ended its call
		return
	}
	if q.Err != nil {
		e.fail(m, q.Err)
		return
	}
	c := m.call
	m.LogP = generate.ApplyResizes(m.LogP, q.Resized, math.NaN())
	m.Free = generate.ApplyResizes(m.Free, q.Resized, true)
	for _, o := range q.Opened {
		m.LogP[o.Position] = o.LogP
	}
	if m.Request.Top > 0 {
		m.Top = generate.ApplyResizes(m.Top, q.Resized, nil)
		for _, o := range q.Opened {
			m.Top[o.Position] = o.Top
		}
	}
	did := Event{Choice: m.choice, Step: traces.NewStep(q, e.tokenizer)}
	did.Closed = slices.Clone(did.Closed)
	m.N, m.Evaluated, m.Choices, m.GivenWay = q.N, q.Work, q.Choices, q.FilterOverruled
	e.o.Calls.stats.PositionsOpened(len(q.Opened))
	if q.N <= 1 && m.choice == 0 {
		e.o.Calls.stats.FirstStepDone(e.o.Now().Sub(c.Created))
	}
	if q.Done {
		m.Tokens = slices.Clone(q.Tokens)
		e.o.Calls.stats.SequenceDone(q.Work)
		e.remove(m)
		m.done = true
	}
	c.add(did)
}

// fail ends the call of a member whose step failed.
func (e *Engine) fail(m *Member, err error) {
	m.call.end(nil, refuse(StepFailed, "%s", err))
	e.mu.Lock()
	e.release(m.call)
	e.mu.Unlock()
}
