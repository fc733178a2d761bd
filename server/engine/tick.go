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
func (e *Engine) tick(members []*Member) {
	began := e.o.Now()
	rows := e.beginCalls(members, began)
	var membersOf [len(e.pools)][]*Member
	for _, m := range members {
		membersOf[m.pool()] = append(membersOf[m.pool()], m)
	}
	for pool, members := range membersOf {
		if len(members) > 0 {
			e.stepPool(pool, members)
		}
	}

	seconds := e.o.Now().Sub(began).Seconds()
	e.o.Calls.stats.PassDone(seconds, rows, len(members))

	// At least a microsecond, because a clock that stood still would make the rate infinite.
	for _, c := range e.recordTick(members, float64(rows), max(seconds, 1e-6)) {
		c.mu.Lock()
		c.waited = c.beganAt.Sub(c.Created)
		c.ran = e.lastPass.Sub(c.beganAt)
		c.mu.Unlock()
		e.o.Calls.answerCall(c)
	}
}

// beginCalls marks the members' calls as begun and returns the rows of the tick.
func (e *Engine) beginCalls(members []*Member, now time.Time) (rows int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range members {
		rows += m.rows
		if c := m.call; c.beganAt.IsZero() {
			c.beganAt = now
			e.o.Calls.stats.CallBegan(now.Sub(c.Created))
		}
	}
	return rows
}

// recordTick updates the engine's rate, a moving average, and what each owner has had and each call
// has left after a tick of rows that took some seconds. It returns the calls whose members are now
// all done.
func (e *Engine) recordTick(members []*Member, rows, seconds float64) (done []*Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastPass = e.o.Now()
	rate := rows / seconds
	if e.rate == 0 {
		e.rate = rate
	} else if !members[0].isHeavy() { // its time is the language's, no measure of the model
		e.rate += (rate - e.rate) / 8
	}

	// fillPlan has counted a member's rows. What counts in the end is time, in rows of an average
	// pass.
	averageRows := e.rate * seconds
	for _, m := range members {
		c := m.call
		e.queue.rows[c.queueKey()] += float64(m.rows) * (averageRows/rows - 1)
		c.lastStep = e.lastPass
		c.countLeft()
		if c.unfinished == 0 && !c.released {
			c.released = true
			done = append(done, c)
		}
	}
	return done
}

// countLeft counts what the call's members still have to do. The caller holds the engine's lock.
func (c *Call) countLeft() {
	c.rowsLeft = 0
	c.unfinished = 0
	c.holdsPlace = false
	for _, m := range c.Members {
		c.rowsLeft += m.rowsLeft()
		if !m.done {
			c.unfinished++
		}
		if m.holdsPlace() {
			c.holdsPlace = true
		}
	}
}

// stepPool makes one step of members of a pool, by its number. If that fails, it makes the step for
// each alone, so that only the member that is the cause fails: strangers share the pass.
func (e *Engine) stepPool(number int, members []*Member) {
	var sequences []*generate.Sequence
	memberOf := map[*generate.Sequence]*Member{}
	pool, err := e.poolAt(number)
	for _, m := range members {
		if err == nil && m.sequence == nil {
			m.sequence, err = e.addSequence(pool, m)
		}
		if err != nil {
			e.failMember(m, err)
			err = nil
			continue
		}
		sequences = append(sequences, m.sequence)
		memberOf[m.sequence] = m
	}
	if len(sequences) == 0 {
		return
	}

	stepped, err := e.stepSequences(pool, sequences)
	if err == nil {
		for _, s := range stepped {
			e.recordStep(memberOf[s], s)
		}
		return
	}
	if e.ctx.Err() != nil { // the pass was interrupted, which is nobody's fault; Run ends all calls
		return
	}
	if len(sequences) == 1 { // it was alone already
		if m := memberOf[sequences[0]]; !m.done {
			e.failMember(m, err)
		}
		return
	}
	for _, s := range sequences {
		m := memberOf[s]
		if m.done { // an earlier member of the same call has failed
			continue
		}
		e.o.Calls.stats.PassRepeated()
		stepped, err := e.stepSequences(pool, []*generate.Sequence{s})
		if err != nil {
			e.failMember(m, err)
		} else if len(stepped) > 0 {
			e.recordStep(m, s)
		}
	}
}

// addSequence adds a member to a pool. A panic is an error.
func (e *Engine) addSequence(pool *generate.Pool, m *Member) (_ *generate.Sequence, err error) {
	defer recoverStep(&err)
	request := m.Request
	request.AdmitGrowth = func(positions, steps int) bool {
		return e.admitGrowth(m, positions, steps)
	}
	return pool.Add(request)
}

// stepSequences makes one step of sequences of a pool and returns those that it made. A panic is an
// error.
func (e *Engine) stepSequences(pool *generate.Pool,
	sequences []*generate.Sequence) (_ []*generate.Sequence, err error) {
	defer recoverStep(&err)
	return pool.Step(e.ctx, sequences...)
}

// recoverStep turns a panic into an error, so that one request's fault does not end the server.
func recoverStep(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("a step failed: %v", r)
	}
}

// recordStep stores what a step did to a member, and notifies its call.
func (e *Engine) recordStep(m *Member, s *generate.Sequence) {
	if m.done { // the fault of another member has ended its call
		return
	}
	if s.Err != nil {
		e.failMember(m, s.Err)
		return
	}

	// Positions may have come and gone in the step. The lists follow it before they are set, because
	// Opened counts positions as they are after it.
	m.LogP = generate.ApplyResizes(m.LogP, s.Resized, math.NaN())
	m.Free = generate.ApplyResizes(m.Free, s.Resized, true)
	for _, o := range s.Opened {
		m.LogP[o.Position] = o.LogP
	}
	if m.Request.Top > 0 {
		m.Top = generate.ApplyResizes(m.Top, s.Resized, nil)
		for _, o := range s.Opened {
			m.Top[o.Position] = o.Top
		}
	}
	if grown := len(s.Tokens) - s.LengthBefore; grown > 0 && m.Request.HasEnd != nil {
		m.grow(grown, s.Steps)
	}
	m.StepsTaken = s.N
	m.Work = s.Work
	m.Choices = s.Choices
	m.FilterOverruled = s.FilterOverruled

	event := Event{Choice: m.choice, Settled: s.Settled, Step: traces.NewStep(s, e.tokenizer)}
	event.Closed = slices.Clone(event.Closed) // the sequence uses its slice again
	c := m.call
	e.o.Calls.stats.PositionsOpened(len(s.Opened))
	if s.N <= 1 && m.choice == 0 {
		e.o.Calls.stats.FirstStepDone(e.o.Now().Sub(c.Created))
	}
	if s.Done {
		m.Tokens = slices.Clone(s.Tokens)
		e.o.Calls.stats.SequenceDone(s.Work)
		e.leavePool(m)
		m.done = true
	}
	c.addEvent(event)
}

// failMember ends the call of a member whose step failed.
func (e *Engine) failMember(m *Member, err error) {
	m.call.finish(nil, newError(StepFailed, "%s", err))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release(m.call)
}
