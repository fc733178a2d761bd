package generate

import (
	"fmt"

	"unmask/kvcache"
	"unmask/model"
)

// noPlace is the place of a member without keys and values in the cache.
const noPlace = -1

// pauseExcept makes all sequences but the given ones wait; with none given nobody waits. It returns
// an error if there are not enough places for those that take part and those that wait and keep
// keys and values.
func (p *Pool) pauseExcept(only []*Sequence) error {
	for _, m := range p.members {
		m.isPaused = len(only) > 0
	}
	for _, q := range only {
		q.member.isPaused = false
	}
	if p.options.Capacity == p.options.Size {
		return nil // there is a place for each
	}
	needed := 0
	for _, m := range p.members {
		if m.needsPlace() {
			needed++
		}
	}
	if needed > p.options.Size {
		return fmt.Errorf("%d sequences take a step or keep keys and values, want at most %d", needed,
			p.options.Size)
	}
	return nil
}

// needsPlace reports whether the member needs a place in the cache in this step, or keeps one for a
// later step.
func (m *member) needsPlace() bool {
	return !m.Done && (!m.isPaused || m.readsCacheLater())
}

// readsCacheLater reports whether a later step of the member reads keys and values of an earlier
// step.
func (m *member) readsCacheLater() bool {
	return m.Reuse != NoReuse && m.place != noPlace && len(m.cached) > 0
}

// assignPlaces gives every member of the step that uses the cache a place in it. It takes places
// from members that will not read theirs again. pauseExcept has checked that there are enough.
func (p *Pool) assignPlaces() {
	next := 0
	for _, m := range p.toCompute {
		if !m.usesCache() || m.place != noPlace {
			continue
		}
		for p.places[next] != nil && p.places[next].needsPlace() {
			next++
		}
		if former := p.places[next]; former != nil {
			former.place = noPlace
		}
		p.places[next] = m
		m.place = next
		p.restorePrefix(m)
	}
}

// Sequences that begin with the same tokens can share keys and values over time
// (PoolOptions.Store): with Reuse Causal or Blocks these depend on nothing that follows. A
// sequence's tokens and steps do not change by it, only the rows of its first pass.

// sharesPrefix reports whether the member's keys and values depend on its tokens alone, so that
// they can come from the store and go there.
func (p *Pool) sharesPrefix(m *member) bool {
	if p.options.Store == nil || m.guidance != nil || m.Condition != nil || len(m.free) == 0 {
		return false
	}
	return m.Reuse == Causal || m.Reuse == Blocks && m.blockPlan.offset == 0
}

// prefixBlockSize returns the positions of a block, whose keys and values depend on all of it.
func (m *member) prefixBlockSize() int {
	if m.Reuse == Blocks {
		return m.network.spec.Block
	}
	return 1
}

// findPrefix finds the kept keys and values of a new member's beginning. The last known tokens
// before the first mask are left to be computed: the first pass is made in any case, and some loops
// take another step if it has only one.
func (p *Pool) findPrefix(m *member) {
	const computed = 2
	if !p.sharesPrefix(m) || m.free[0] <= computed {
		return
	}
	m.foundPrefix = p.options.Store.Find(m.startTokens[:m.free[0]-computed], m.prefixBlockSize())
	m.cached = append(m.cached, m.startTokens[:m.foundPrefix.Length]...)
	m.Work.Recalled = m.foundPrefix.Length
}

// restorePrefix copies what findPrefix found to the member's place in the cache.
func (p *Pool) restorePrefix(m *member) {
	if m.foundPrefix.Length == 0 {
		return
	}
	lock := model.LockOf(m.network.denoiser)
	lock.Lock()
	defer lock.Unlock()
	m.foundPrefix.CopyTo(p.cache, m.place)
	m.foundPrefix = kvcache.Prefix{}
}

// storePrefix keeps the keys and values of a finished member's tokens.
func (p *Pool) storePrefix(m *member) {
	if !p.sharesPrefix(m) || m.Err != nil || m.place == noPlace {
		return
	}
	length := min(len(m.cached), len(m.Sequence.Tokens))
	n := 0
	for n < length && m.cached[n] == m.Tokens[n] && m.Tokens[n] != m.mask {
		n++
	}
	lock := model.LockOf(m.network.denoiser)
	lock.Lock()
	defer lock.Unlock()
	p.options.Store.Keep(p.cache, m.place, m.cached[:n], m.prefixBlockSize())
}
