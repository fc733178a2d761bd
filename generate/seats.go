package generate

import (
	"fmt"

	"unmask/kvcache"
	"unmask/model"
)

// nowhere is the place of a member without keys and values in the cache.
const nowhere = -1

// pause makes all sequences but the given ones wait; with none given nobody waits. It returns an
// error if there are not enough places for those that take part and those that wait and keep keys
// and values.
func (p *Pool) pause(only []*Sequence) error {
	for _, m := range p.members {
		m.waits = len(only) > 0
	}
	for _, q := range only {
		q.member.waits = false
	}
	if p.o.Capacity == p.o.Size {
		return nil
	}
	taken := 0
	for _, m := range p.members {
		if !m.Done && (!m.waits || m.keeps()) {
			taken++
		}
	}
	if taken > p.o.Size {
		return fmt.Errorf("%d sequences take a step or keep keys and values, want at most %d", taken,
			p.o.Size)
	}
	return nil
}

// keeps reports whether a later step of the member reads keys and values of an earlier step.
func (m *member) keeps() bool {
	return m.Reuse != NoReuse && m.place != nowhere && len(m.cached) > 0
}

// seat gives every member of the step that uses the cache a place in it. It takes places from
// waiting members that will not read theirs again.
func (p *Pool) seat() {
	at := 0
	for _, m := range p.busy {
		if !m.caches() || m.place != nowhere {
			continue
		}
		for o := p.places[at]; o != nil && !o.Done && (!o.waits || o.keeps()); o = p.places[at] {
			at++ // o needs its place in this step or later
		}
		if p.places[at] != nil {
			p.places[at].place = nowhere
		}
		p.places[at], m.place = m, at
		p.restore(m)
	}
}

// Sequences that begin with the same tokens can share keys and values over time
// (PoolOptions.Store): with Reuse Causal or Blocks these depend on nothing that follows. A
// sequence's tokens and steps do not change by it, only the rows of its first pass.

// sharesPrefix reports whether the member's keys and values depend on its tokens alone.
func (p *Pool) sharesPrefix(m *member) bool {
	return p.o.Store != nil && (m.Reuse == Causal || m.Reuse == Blocks && m.work.offset == 0) &&
		m.scale == nil && m.Condition == nil && len(m.free) > 0
}

// prefixBlock returns the positions of a block, whose keys and values depend on all of it.
func (m *member) prefixBlock() int {
	if m.Reuse == Blocks {
		return m.network.spec.Block
	}
	return 1
}

// recall finds the kept keys and values of a new member's beginning. The last known tokens before
// the first mask are left to be computed: the first pass is made in any case, and some loops take
// another step if it has only one.
func (p *Pool) recall(m *member) {
	if p.sharesPrefix(m) && m.free[0] > 2 {
		m.prefix = p.o.Store.Find(m.start[:m.free[0]-2], m.prefixBlock())
		m.cached = append(m.cached, m.start[:m.prefix.Length]...)
		m.Work.Recalled = m.prefix.Length
	}
}

// restore copies what recall found to the member's place in the cache.
func (p *Pool) restore(m *member) {
	if m.prefix.Length == 0 {
		return
	}
	lock := model.LockOf(m.network.d)
	lock.Lock()
	defer lock.Unlock()
	m.prefix.CopyTo(p.cache, m.place)
	m.prefix = kvcache.Prefix{}
}

// remember keeps the keys and values of a finished member's tokens.
func (p *Pool) remember(m *member) {
	if !p.sharesPrefix(m) || m.Err != nil || m.place == nowhere {
		return
	}
	n := 0
	for n < min(len(m.cached), len(m.Sequence.Tokens)) && m.cached[n] == m.Tokens[n] &&
		m.Tokens[n] != m.mask {
		n++
	}
	lock := model.LockOf(m.network.d)
	lock.Lock()
	defer lock.Unlock()
	p.o.Store.Keep(p.cache, m.place, m.cached[:n], m.prefixBlock())
}
