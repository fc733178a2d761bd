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
//   - On a CPU, a call much longer than the first of a pass waits for another pass (see longer).
//     One sequence keeps a CPU busy, so the long one would only slow the short one.
//   - A sequence whose language is much work has a pass for itself (see heavy).
type fairQueue struct {
	rows  map[string]float64 // that each class and owner has had
	batch float64            // rows that batch calls have not had yet
}

// batchShare is the part of the rows that batch calls get at least.
const batchShare = 0.1

// queueOf names an owner in a class.
func queueOf(owner string, batch bool) string {
	if batch {
		return "b" + owner
	}
	return "i" + owner
}

// queue names the call's owner in its class.
func (c *Call) queue() string { return queueOf(c.Owner, c.Batch) }

// join sets the count of an owner whose work comes to at least the least count of those of its
// class that are present. So one that had nothing to do for a while has no claim to the time that
// it did not use.
func (t *fairQueue) join(mine string, present []string) {
	if len(present) == 0 || slices.Contains(present, mine) {
		return
	}
	least := math.Inf(1)
	for _, o := range present {
		least = min(least, t.rows[o])
	}
	t.rows[mine] = max(t.rows[mine], least)
}

// pick returns the members of the next tick. It takes the lock.
func (e *Engine) pick() []*Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Now()
	var classes [2][]*Call // interactive, batch
	for _, c := range e.calls {
		if c.ended || c.open == 0 || e.drained && c.begun.IsZero() {
			continue
		}
		if c.Batch {
			classes[1] = append(classes[1], c)
		} else {
			classes[0] = append(classes[0], c)
		}
	}
	for _, class := range classes {
		e.order(class, now)
	}
	p := e.newPicking()
	if len(classes[0]) > 0 && len(classes[1]) > 0 {
		if next := p.first(classes[1]); next != nil && e.queue.batch >= float64(next.rows) {
			e.queue.batch -= float64(next.rows)
			p.take(next)
		}
	}
	e.fill(p, classes[0])
	if len(classes[0]) > 0 && len(classes[1]) > 0 {
		e.queue.batch = min(e.queue.batch+batchShare*float64(e.o.Rows-p.rows), float64(e.o.Rows))
	}
	if p.shares || len(p.members) == 0 || len(classes[0]) == 0 {
		e.fill(p, classes[1])
	}
	return p.members
}

// order sorts calls by the rows that they have left, less those that could have been computed while
// they waited.
func (e *Engine) order(calls []*Call, now time.Time) {
	score := func(c *Call) float64 {
		return float64(c.left) - now.Sub(c.stepped).Seconds()*e.rate
	}
	slices.SortStableFunc(calls, func(a, b *Call) int { return cmp.Compare(score(a), score(b)) })
}

// fill takes members of a class as long as they fit, owner by owner.
func (e *Engine) fill(p *picking, class []*Call) {
	byOwner, took := map[string][]*Call{}, map[string]bool{}
	var owners, done []string // done are those whose sequences are all in this pass
	for _, c := range class {
		k := c.queue()
		if byOwner[k] == nil {
			owners = append(owners, k)
		}
		byOwner[k] = append(byOwner[k], c)
	}
	for len(owners) > 0 {
		k := slices.MinFunc(owners, func(a, b string) int {
			return cmp.Compare(e.queue.rows[a], e.queue.rows[b])
		})
		behind := func(o string) bool { return e.queue.rows[o] < e.queue.rows[k] }
		if !p.shares && slices.ContainsFunc(done, behind) {
			return
		}
		if next := p.first(byOwner[k]); next != nil {
			p.take(next)
			e.queue.rows[k] += float64(next.rows)
			took[k] = true
			continue
		}
		owners = slices.DeleteFunc(owners, func(o string) bool { return o == k })
		if took[k] {
			done = append(done, k)
		}
	}
}

// heavyWork is the work of a language, in edges that a step looks at, from which a member has a
// pass for itself, so that no other sequence waits for it in each of its steps: about a
// millisecond or, on a device where a pass of more rows takes hardly longer, some more.
const heavyWork, heavyShared = 1 << 16, 1 << 20

// heavy reports whether the member's language is much work.
func (m *Member) heavy() bool {
	most := heavyWork
	if m.call.engine.shares {
		most = heavyShared
	}
	return m.Request.Language != nil && m.Request.Language.Work() > most
}

// picking collects the members of a tick.
type picking struct {
	members []*Member
	taken   map[*Member]bool
	rows    int    // that are left
	places  [2]int // that are left in each pool
	keeping [2]int // members that have begun to keep keys and values, or may
	max     [2]int // of them
	longest int64  // rows of all steps of a call that may take part
	heavy   bool   // one member has the pass for itself
	shares  bool   // calls of any length share a pass
}

// longer bounds a pass on a CPU: a call may have at most this many times the rows of the first.
const longer = 4

// newPicking counts the places that sequences keep.
func (e *Engine) newPicking() *picking {
	p := &picking{taken: map[*Member]bool{}, rows: e.o.Rows, places: e.places,
		longest: math.MaxInt64, shares: e.shares}
	for i, n := range p.places {
		p.max[i] = max(1, n-1) // one is left to those that keep nothing
	}
	for _, c := range e.calls {
		for _, m := range c.Members {
			if m.holds() {
				p.places[m.pool()]--
				p.keeping[m.pool()]++
			}
		}
	}
	return p
}

// pool is the number of the member's pool.
func (m *Member) pool() int {
	if m.guided {
		return 1
	}
	return 0
}

// holds reports whether the member has a place that it keeps between its steps.
func (m *Member) holds() bool { return m.kept && m.sequence != nil && !m.done }

// first returns the first member of calls that can be taken, nil for none.
func (p *picking) first(calls []*Call) *Member {
	for _, c := range calls {
		if c.Rows > p.longest {
			continue
		}
		for _, m := range c.Members {
			if !m.done && !p.taken[m] && p.fits(m) {
				return m
			}
		}
	}
	return nil
}

// fits reports whether a member can take part beside those that were taken.
func (p *picking) fits(m *Member) bool {
	switch {
	case len(p.members) > 0 && (m.rows > p.rows || p.heavy || m.heavy()):
		return false
	case m.holds():
		return true
	case m.kept:
		return p.keeping[m.pool()] < p.max[m.pool()] && p.places[m.pool()] > 0
	}
	return p.places[m.pool()] > 0
}

func (p *picking) take(m *Member) {
	if len(p.members) == 0 && !p.shares {
		p.longest = longer * m.call.Rows
	}
	p.members = append(p.members, m)
	p.taken[m], p.heavy = true, m.heavy()
	p.rows -= m.rows
	if !m.holds() {
		if p.places[m.pool()]--; m.kept {
			p.keeping[m.pool()]++
		}
	}
}

// visit is a turn of work that is no call, such as a pass that scores a text.
type visit struct {
	owner      string
	since      time.Time // of an owner's visits, those since the earliest time go first
	begin, end chan struct{}
}

// AwaitTurn waits for a turn to use the model, and returns the function that ends it. A turn should
// be about one pass. Owners take turns for their visits and calls alike.
func (e *Engine) AwaitTurn(ctx context.Context, owner string, since time.Time) (end func(),
	err error) {
	v := &visit{owner: queueOf(owner, false), since: since, begin: make(chan struct{}),
		end: make(chan struct{})}
	end = sync.OnceFunc(func() { close(v.end) })
	e.mu.Lock()
	e.queue.join(v.owner, e.present(false))
	e.visits = append(e.visits, v)
	e.mu.Unlock()
	e.wake()
	select {
	case <-v.begin:
		return end, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	case <-e.ctx.Done():
		end()
		return nil, shuttingDown()
	}
}

// visited gives one visit its turn, if it is the turn of its owner, and waits for its end.
func (e *Engine) visited() bool {
	v := e.visitor()
	if v == nil {
		return false
	}
	began := e.o.Now()
	close(v.begin)
	<-v.end
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passed = e.o.Now()
	e.queue.rows[v.owner] += max(e.passed.Sub(began).Seconds()*e.rate, 1)
	return true
}

// visitor returns the visit whose turn it is, nil where it is that of a call.
func (e *Engine) visitor() (next *visit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	had := func(v *visit) float64 { return e.queue.rows[v.owner] }
	for _, v := range e.visits {
		if next == nil || had(v) < had(next) || had(v) == had(next) && v.since.Before(next.since) {
			next = v
		}
	}
	for _, c := range e.calls {
		if next != nil && !c.ended && !c.Batch && e.queue.rows[c.queue()] < had(next) {
			return nil
		}
	}
	e.visits = slices.DeleteFunc(e.visits, func(v *visit) bool { return v == next })
	return next
}

// present returns the owners that have work of a class. The caller holds the lock.
func (e *Engine) present(batch bool) (owners []string) {
	for _, c := range e.calls {
		if c.Batch == batch && !c.ended {
			owners = append(owners, c.queue())
		}
	}
	for _, v := range e.visits {
		if !batch {
			owners = append(owners, v.owner)
		}
	}
	return owners
}
