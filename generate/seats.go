package generate

import "fmt"

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
	if p.o.Most == p.o.Size {
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
		for p.places[at] != nil && !p.places[at].moves() {
			at++
		}
		if p.places[at] != nil {
			p.places[at].place = nowhere
		}
		p.places[at], m.place = m, at
		p.restore(m)
	}
}

// moves reports whether another member may take this member's place in this step.
func (m *member) moves() bool { return m.Done || m.waits && !m.keeps() }

// leave frees the member's place.
func (p *Pool) leave(m *member) {
	if m.place != nowhere {
		p.places[m.place], m.place = nil, nowhere
	}
}
