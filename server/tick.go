package server

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"unmask/generate"
	"unmask/generate/traces"
)

// tick makes one step of each member.
func (e *engine) tick(picked []*member) {
	began := e.o.now()
	rows := e.begin(picked, began)
	var byPool [len(e.pools)][]*member
	for _, m := range picked {
		byPool[m.pool()] = append(byPool[m.pool()], m)
	}
	for i, members := range byPool {
		e.step(members, i == 1)
	}
	took := e.o.now().Sub(began).Seconds()
	e.o.stats.pass(took, rows, len(picked))
	for _, w := range e.settle(picked, float64(rows)/max(took, 1e-6)) {
		w.times(w.begun.Sub(w.created), e.passed.Sub(w.begun))
		e.o.ended(w)
	}
}

// begin marks the members' works as begun and returns the rows of the tick.
func (e *engine) begin(picked []*member, now time.Time) (rows int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range picked {
		rows += m.rows
		if w := m.work; w.begun.IsZero() {
			w.begun = now
			e.o.stats.queued(now.Sub(w.created))
		}
	}
	return rows
}

// settle updates the engine's rate, a moving average, and what each work has left after a tick of
// `rate` rows a second. It returns the works that ended.
func (e *engine) settle(picked []*member, rate float64) (ended []*work) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passed = e.o.now()
	if e.rate == 0 {
		e.rate = rate
	} else {
		e.rate += (rate - e.rate) / 8
	}
	for _, m := range picked {
		w := m.work
		w.stepped = e.passed
		w.left, w.open, w.keeping = 0, 0, false
		for _, o := range w.members {
			w.keeping = w.keeping || o.holds()
			if w.left += o.left(); !o.done {
				w.open++
			}
		}
		if w.open == 0 && !w.ended {
			w.ended = true
			ended = append(ended, w)
		}
	}
	return ended
}

// step makes one step of members of a pool. Where that fails, it makes the step for each alone, so
// that only the member that is the cause fails.
func (e *engine) step(members []*member, guided bool) {
	if len(members) == 0 {
		return
	}
	var in []*generate.Sequence
	owners := map[*generate.Sequence]*member{}
	p, err := e.pool(guided)
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
			e.moved(owners[q], q)
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
			e.o.stats.repeated()
			if moved, err = e.try(p, []*generate.Sequence{q}); err == nil {
				if len(moved) > 0 {
					e.moved(owners[q], q)
				}
				continue
			}
		}
		e.fail(owners[q], err)
	}
}

// join adds a member to a pool.
func (e *engine) join(p *generate.Pool, m *member) (q *generate.Sequence, err error) {
	defer recovered(&err)
	return p.Add(m.request)
}

// try makes one step. A panic is an error.
func (e *engine) try(p *generate.Pool, in []*generate.Sequence) (_ []*generate.Sequence,
	err error) {
	defer recovered(&err)
	return p.Step(e.ctx, in...)
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("a step failed: %v", r)
	}
}

// moved stores what a step did to a member, and tells its work.
func (e *engine) moved(m *member, q *generate.Sequence) {
	if m.done { // another's fault has ended its work
		return
	}
	if q.Err != nil {
		e.fail(m, q.Err)
		return
	}
	w := m.work
	if len(q.Resized) > 0 { // streams read the slice meanwhile
		m.logP = generate.Follow(slices.Clone(m.logP), q.Resized, math.NaN())
		m.free = generate.Follow(m.free, q.Resized, true)
	}
	for _, o := range q.Opened {
		m.logP[o.Position] = o.LogP
	}
	if m.request.Top > 0 {
		m.top = generate.Follow(m.top, q.Resized, nil)
		for _, o := range q.Opened {
			m.top[o.Position] = o.Top
		}
	}
	did := event{choice: m.choice, Step: traces.NewStep(q, w.model.tokenizer())}
	did.Closed = slices.Clone(did.Closed)
	m.n, m.evaluated = q.N, q.Evaluated
	e.o.stats.opened(len(q.Opened))
	if q.N <= 1 && m.choice == 0 {
		e.o.stats.firstStep(e.o.now().Sub(w.created))
	}
	if q.Done {
		m.tokens = slices.Clone(q.Tokens)
		e.o.stats.evaluated(q.Evaluated)
		e.leave(m)
		m.done = true
	}
	w.add(did)
}

// fail ends the work of a member whose step failed.
func (e *engine) fail(m *member, err error) {
	f := fault(http.StatusInternalServerError, "step_failed", "%s", oneLine(err))
	m.work.end(nil, f)
	e.mu.Lock()
	e.release(m.work)
	e.mu.Unlock()
}
