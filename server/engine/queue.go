package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// fairQueue decides whose step is next:
//
//   - There are two classes of calls, interactive and batch. While both wait, batch calls get a
//     tenth of the rows.
//   - Within a class, owners take turns by time, in rows of an average pass. The next is the owner
//     that has had the least since it last had nothing to do.
//   - Of an owner's calls, the one with the fewest rows left goes first. Waiting counts as rows
//     less, so a short request does not wait for a long one, nor a long one for ever.
//   - On a CPU, where a pass takes its rows' time, an owner waits for the next pass once it has had
//     more than another whose sequences are all in this one.
//   - On a CPU, a call much longer than the first of a pass waits for another pass (see
//     maxLengthRatio). One sequence keeps a CPU busy, so the long one would only slow the short
//     one.
//   - A sequence whose language is much work has a pass for itself (see isHeavy).
type fairQueue struct {
	// rows counts the rows that each owner has had in each class, by queueKey.
	rows map[string]float64

	// batchRows are the rows that batch calls are owed while interactive calls wait too.
	batchRows float64
}

// batchShare is the part of the rows that batch calls get at least.
const batchShare = 0.1

// queueKey names an owner in a class. A client has one queue for each class, so that its batch
// calls do not make its interactive ones wait.
func queueKey(owner string, batch bool) string {
	if batch {
		return "b" + owner
	}
	return "i" + owner
}

// queueKey names the call's owner in its class.
func (c *Call) queueKey() string { return queueKey(c.Owner, c.Batch) }

// join sets the count of an owner whose work comes to at least the least count of those of its
// class that are present. So one that had nothing to do for a while has no claim to the time that
// it did not use.
func (q *fairQueue) join(key string, present []string) {
	if len(present) == 0 || slices.Contains(present, key) {
		return
	}
	fewestRows := math.Inf(1)
	for _, other := range present {
		fewestRows = min(fewestRows, q.rows[other])
	}
	q.rows[key] = max(q.rows[key], fewestRows)
}

// pick returns the members of the next tick, none if no call waits for a step.
func (e *Engine) pick() []*Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Now()
	var interactive, batch []*Call
	for _, c := range e.calls {
		if c.released || c.unfinished == 0 || e.draining && c.beganAt.IsZero() {
			continue
		}
		if c.Batch {
			batch = append(batch, c)
		} else {
			interactive = append(interactive, c)
		}
	}
	e.sortCalls(interactive, now)
	e.sortCalls(batch, now)

	// What batch calls are owed adds up until it pays for the step of a whole member, which then goes
	// first. It is at most the rows of a pass, so that a long wait brings them no long run of steps.
	plan := e.newTickPlan()
	bothWait := len(interactive) > 0 && len(batch) > 0
	if bothWait {
		m := plan.nextMember(batch)
		if m != nil && e.queue.batchRows >= float64(m.rows) {
			e.queue.batchRows -= float64(m.rows)
			plan.add(m)
		}
	}
	e.fillPlan(plan, interactive)
	if bothWait {
		owed := e.queue.batchRows + batchShare*float64(e.o.Rows-plan.rowsLeft)
		e.queue.batchRows = min(owed, float64(e.o.Rows))
	}
	if plan.sharesPasses || len(plan.members) == 0 || len(interactive) == 0 {
		e.fillPlan(plan, batch)
	}
	return plan.members
}

// sortCalls sorts calls by the rows that they have left, less those that could have been computed
// while they waited.
func (e *Engine) sortCalls(calls []*Call, now time.Time) {
	score := func(c *Call) float64 {
		return float64(c.rowsLeft) - now.Sub(c.lastStep).Seconds()*e.rate
	}
	slices.SortStableFunc(calls, func(a, b *Call) int { return cmp.Compare(score(a), score(b)) })
}

// fillPlan adds members of the calls of one class as long as they fit. Each member is of the owner
// that has had the least so far.
func (e *Engine) fillPlan(plan *tickPlan, class []*Call) {
	callsOf := map[string][]*Call{} // by queueKey
	var waiting []string            // owners of which more members may fit
	for _, c := range class {
		key := c.queueKey()
		if callsOf[key] == nil {
			waiting = append(waiting, key)
		}
		callsOf[key] = append(callsOf[key], c)
	}

	hasMembers := map[string]bool{}
	var served []string // owners whose sequences are all in this pass
	for len(waiting) > 0 {
		key := slices.MinFunc(waiting, func(a, b string) int {
			return cmp.Compare(e.queue.rows[a], e.queue.rows[b])
		})
		hadLess := func(other string) bool { return e.queue.rows[other] < e.queue.rows[key] }
		if !plan.sharesPasses && slices.ContainsFunc(served, hadLess) {
			return // more rows would only make the next step of served owners later
		}

		if m := plan.nextMember(callsOf[key]); m != nil {
			plan.add(m)
			e.queue.rows[key] += float64(m.rows)
			hasMembers[key] = true
			continue
		}
		waiting = slices.DeleteFunc(waiting, func(other string) bool { return other == key })
		if hasMembers[key] {
			served = append(served, key)
		}
	}
}

// heavyWork is the work of a language, in edges that a step looks at, from which a member has a
// pass for itself, so that no other sequence waits for it in each of its steps. It is about a
// millisecond.
const heavyWork = 1 << 16

// heavySharedWork is heavyWork on a device where a pass of more rows takes hardly longer: there a
// pass for one sequence alone costs the others more.
const heavySharedWork = 1 << 20

// isHeavy reports whether the member's language is so much work that it has a pass for itself.
func (m *Member) isHeavy() bool {
	limit := heavyWork
	if m.call.engine.sharesPasses {
		limit = heavySharedWork
	}
	return m.Request.Language != nil && m.Request.Language.Work() > limit
}

// tickPlan collects the members of a tick. Its arrays have an element for each pool.
type tickPlan struct {
	members []*Member
	planned map[*Member]bool

	// rowsLeft are the rows that are still free in the tick.
	rowsLeft int

	// placesLeft are the free places.
	placesLeft [2]int

	// keeping counts the members that keep a place between their steps, with those that begin to in
	// this tick.
	keeping [2]int

	// maxKeeping bounds keeping.
	maxKeeping [2]int

	// maxCallRows bounds the rows of a call that may take part.
	maxCallRows int64

	// isHeavy reports whether one member has the pass for itself.
	isHeavy bool

	// sharesPasses is the engine's: calls of any length share a pass.
	sharesPasses bool
}

// maxLengthRatio bounds a pass on a CPU: a call may have at most this many times the rows of the
// first.
const maxLengthRatio = 4

// newTickPlan returns a plan without members, in which sequences have the places that they keep.
// The caller holds the lock.
func (e *Engine) newTickPlan() *tickPlan {
	plan := &tickPlan{
		planned:      map[*Member]bool{},
		rowsLeft:     e.o.Rows,
		placesLeft:   e.places,
		maxCallRows:  math.MaxInt64,
		sharesPasses: e.sharesPasses,
	}
	for i, n := range plan.placesLeft {
		// One place is left to sequences that keep nothing. If long answers kept them all, no other
		// call could begin before one of these ends.
		plan.maxKeeping[i] = max(1, n-1)
	}
	for _, c := range e.calls {
		for _, m := range c.Members {
			if m.holdsPlace() {
				plan.placesLeft[m.pool()]--
				plan.keeping[m.pool()]++
			}
		}
	}
	return plan
}

// pool is the number of the member's pool: 1 with guidance, otherwise 0.
func (m *Member) pool() int {
	if m.guided {
		return 1
	}
	return 0
}

// holdsPlace reports whether the member has a place that it keeps between its steps.
func (m *Member) holdsPlace() bool { return m.keepsPlace && m.sequence != nil && !m.done }

// nextMember returns the first member of calls that can be added, nil for none.
func (p *tickPlan) nextMember(calls []*Call) *Member {
	for _, c := range calls {
		if c.Rows > p.maxCallRows {
			continue
		}
		for _, m := range c.Members {
			if !m.done && !p.planned[m] && p.fits(m) {
				return m
			}
		}
	}
	return nil
}

// fits reports whether a member can take part beside those that are planned. The first one fits
// whatever its rows are, or it would never have its turn.
func (p *tickPlan) fits(m *Member) bool {
	if len(p.members) > 0 && (m.rows > p.rowsLeft || p.isHeavy || m.isHeavy()) {
		return false
	}
	if m.holdsPlace() {
		return true
	}
	pool := m.pool()
	if m.keepsPlace && p.keeping[pool] >= p.maxKeeping[pool] {
		return false
	}
	return p.placesLeft[pool] > 0
}

// add adds a member that fits.
func (p *tickPlan) add(m *Member) {
	if len(p.members) == 0 && !p.sharesPasses {
		p.maxCallRows = maxLengthRatio * m.call.Rows
	}
	p.members = append(p.members, m)
	p.planned[m] = true
	p.isHeavy = m.isHeavy()
	p.rowsLeft -= m.rows
	if m.holdsPlace() {
		return // newTickPlan has counted its place
	}
	p.placesLeft[m.pool()]--
	if m.keepsPlace {
		p.keeping[m.pool()]++
	}
}

// turn is the use of the model for work that is no call, such as a pass that scores a text.
type turn struct {
	queueKey string

	// since orders the turns of an owner: the earliest goes first.
	since time.Time

	// begin is closed by the engine, end by the user of the turn.
	begin chan struct{}
	end   chan struct{}
}

// AwaitTurn waits for a turn to use the model, and returns the function that ends it. A turn should
// be about one pass. Owners take turns for this work and for their calls alike; of an owner's,
// those with the earliest since go first. The error is that of ctx, or an *Error when the engine
// ends.
func (e *Engine) AwaitTurn(ctx context.Context, owner string, since time.Time) (end func(),
	err error) {
	t := &turn{
		queueKey: queueKey(owner, false),
		since:    since,
		begin:    make(chan struct{}),
		end:      make(chan struct{}),
	}
	end = sync.OnceFunc(func() { close(t.end) })
	e.mu.Lock()
	e.queue.join(t.queueKey, e.presentQueues(false))
	e.turns = append(e.turns, t)
	e.mu.Unlock()
	e.wake()

	// The engine may begin a turn that nobody waits for any more. It has ended by then, so the
	// engine goes on at once.
	select {
	case <-t.begin:
		return end, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	case <-e.ctx.Done():
		end()
		return nil, shutdownError()
	}
}

// runTurn lets one AwaitTurn return, if it is the turn of its owner, and waits for the end of the
// turn. It reports whether there was one.
func (e *Engine) runTurn() bool {
	t := e.nextTurn()
	if t == nil {
		return false
	}
	began := e.o.Now()
	close(t.begin)
	<-t.end

	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastPass = e.o.Now()
	// What a turn computes is not known, so its time counts, as rows of an average pass.
	e.queue.rows[t.queueKey] += max(e.lastPass.Sub(began).Seconds()*e.rate, 1)
	return true
}

// nextTurn removes and returns the turn that is next, nil where a call's step is.
func (e *Engine) nextTurn() *turn {
	e.mu.Lock()
	defer e.mu.Unlock()
	rowsHad := func(t *turn) float64 { return e.queue.rows[t.queueKey] }
	var next *turn
	for _, t := range e.turns {
		if next == nil || rowsHad(t) < rowsHad(next) ||
			rowsHad(t) == rowsHad(next) && t.since.Before(next.since) {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	for _, c := range e.calls {
		if !c.released && !c.Batch && e.queue.rows[c.queueKey()] < rowsHad(next) { // it goes first
			return nil
		}
	}
	e.turns = slices.DeleteFunc(e.turns, func(t *turn) bool { return t == next })
	return next
}

// presentQueues returns the queueKey of each call and turn of a class that is there. The caller
// holds the lock.
func (e *Engine) presentQueues(batch bool) (keys []string) {
	for _, c := range e.calls {
		if c.Batch == batch && !c.released {
			keys = append(keys, c.queueKey())
		}
	}
	if batch {
		return keys
	}
	for _, t := range e.turns {
		keys = append(keys, t.queueKey)
	}
	return keys
}
