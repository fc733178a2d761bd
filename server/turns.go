package server

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// turns decides whose step is next:
//
//   - There are two classes of work, interactive and batch. While both wait, batch work gets a
//     tenth of the rows.
//   - Within a class, API keys take turns by rows. The next is the key that has had the fewest
//     since it last had nothing to do.
//   - Of a key's works, the one with the fewest rows left goes first. Waiting counts as rows less,
//     so a short request does not wait for a long one, nor a long one for ever.
//   - On a CPU, a work much longer than the first of a pass waits for another pass (see longer).
//     One sequence keeps a CPU busy, so the long one would only slow the short one.
type turns struct {
	served map[string]float64 // rows of each class and key
	batch  float64            // rows that batch work has not had yet
}

// batchShare is the part of the rows that batch work gets at least.
const batchShare = 0.1

// turnOf names a work's key in its class.
func turnOf(w *work) string {
	if w.batch {
		return "b" + w.owner
	}
	return "i" + w.owner
}

// join sets the count of a new work's key to at least the least count of the other keys. So a key
// that had nothing to do for a while has no claim to the rows that it did not use.
func (t *turns) join(w *work, all []*work) {
	mine := turnOf(w)
	least, other := math.Inf(1), false
	for _, o := range all {
		switch {
		case o == w || o.ended || o.batch != w.batch:
		case turnOf(o) == mine:
			return // it is there already
		default:
			least, other = min(least, t.served[turnOf(o)]), true
		}
	}
	if other {
		t.served[mine] = max(t.served[mine], least)
	}
}

// sweep clears all counts once no work is left.
func (t *turns) sweep(all []*work) {
	if len(all) == 0 {
		clear(t.served)
		t.batch = 0
	}
}

// pick returns the members of the next tick. It takes the lock.
func (e *engine) pick() []*member {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.now()
	var classes [2][]*work // interactive, batch
	for _, w := range e.works {
		if w.ended || w.open == 0 || e.drained && w.begun.IsZero() {
			continue
		}
		if w.batch {
			classes[1] = append(classes[1], w)
		} else {
			classes[0] = append(classes[0], w)
		}
	}
	for _, class := range classes {
		e.order(class, now)
	}
	p := e.newPicking()
	if len(classes[0]) > 0 && len(classes[1]) > 0 {
		e.turns.batch = min(e.turns.batch+batchShare*float64(e.o.rows), float64(e.o.rows))
		if next := p.first(classes[1]); next != nil && e.turns.batch >= float64(next.rows) {
			e.turns.batch -= float64(next.rows)
			p.take(next)
		}
	}
	for _, class := range classes {
		e.fill(p, class)
	}
	return p.members
}

// order sorts works by the rows that they have left, less those that could have been computed while
// they waited.
func (e *engine) order(works []*work, now time.Time) {
	score := func(w *work) float64 {
		return float64(w.left) - now.Sub(w.stepped).Seconds()*e.rate
	}
	slices.SortStableFunc(works, func(a, b *work) int { return cmp.Compare(score(a), score(b)) })
}

// fill takes members of a class as long as they fit, key by key.
func (e *engine) fill(p *picking, class []*work) {
	byKey := map[string][]*work{}
	var keys []string
	for _, w := range class {
		k := turnOf(w)
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], w)
	}
	for len(keys) > 0 {
		at := 0
		for i, k := range keys {
			if e.turns.served[k] < e.turns.served[keys[at]] {
				at = i
			}
		}
		k := keys[at]
		if next := p.first(byKey[k]); next != nil {
			p.take(next)
			e.turns.served[k] += float64(next.rows)
			continue
		}
		keys = slices.Delete(keys, at, at+1)
	}
}

// picking collects the members of a tick.
type picking struct {
	members []*member
	taken   map[*member]bool
	rows    int    // that are left
	places  [2]int // that are left in each pool
	keeping [2]int // members that have begun to keep keys and values, or may
	most    [2]int // of them
	longest int64  // rows of all steps of a work that may take part
	shares  bool   // works of any length share a pass
}

// longer bounds a pass on a CPU: a work may have at most this many times the rows of the first.
const longer = 4

// newPicking counts the places that sequences keep.
func (e *engine) newPicking() *picking {
	p := &picking{taken: map[*member]bool{}, rows: e.o.rows, places: [2]int{e.places, e.guided()},
		longest: math.MaxInt64, shares: e.shares}
	for i, n := range p.places {
		p.most[i] = max(1, n-1) // one is left to those that keep nothing
	}
	for _, w := range e.works {
		for _, m := range w.members {
			if m.holds() {
				p.places[m.pool()]--
				p.keeping[m.pool()]++
			}
		}
	}
	return p
}

// pool is the number of the member's pool.
func (m *member) pool() int {
	if m.guided {
		return 1
	}
	return 0
}

// holds reports whether the member has a place that it keeps between its steps.
func (m *member) holds() bool { return m.kept && m.sequence != nil && !m.done }

// first returns the first member of works that can be taken, nil for none.
func (p *picking) first(works []*work) *member {
	for _, w := range works {
		if w.rows > p.longest {
			continue
		}
		for _, m := range w.members {
			if !m.done && !p.taken[m] && p.fits(m) {
				return m
			}
		}
	}
	return nil
}

// fits reports whether a member can take part beside those that were taken.
func (p *picking) fits(m *member) bool {
	switch {
	case m.rows > p.rows && len(p.members) > 0:
		return false
	case m.holds():
		return true
	case m.kept:
		return p.keeping[m.pool()] < p.most[m.pool()] && p.places[m.pool()] > 0
	}
	return p.places[m.pool()] > 0
}

func (p *picking) take(m *member) {
	if len(p.members) == 0 && !p.shares {
		p.longest = longer * m.work.rows
	}
	p.members = append(p.members, m)
	p.taken[m] = true
	p.rows -= m.rows
	switch {
	case m.holds():
	default:
		if p.places[m.pool()]--; m.kept {
			p.keeping[m.pool()]++
		}
	}
}
