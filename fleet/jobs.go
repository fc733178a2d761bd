//go:build !nofleet

package fleet

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// unit is the smallest job: outputs that follow one another.
type unit struct {
	first, count int
	left         int // that are missing
	sent         time.Time
	copied       time.Time // when a copy went out last
	holders      []*peer   // who makes it now
	given        []*peer   // who ever got it, and may hand in its outputs
}

// waiter is a worker that asked for jobs when there were none.
type waiter struct {
	m     *nats.Msg
	wants int
	since time.Time
}

// cut makes units of at most size outputs.
func (s *session) cut(pending []int, size int) {
	slices.Sort(pending)
	var u *unit
	for _, i := range pending {
		if u == nil || i != u.first+u.count || u.count == size {
			u = &unit{first: i}
			s.todo = append(s.todo, u)
		}
		u.count++
		u.left++
		s.units[i] = u
	}
}

// answer answers a worker that waits, if there is something for it or if it has waited for long.
func (s *session) answer(p *peer) {
	w := s.waiting[p]
	t := ack{Jobs: s.share(p), Give: s.give(p, w.wants)}
	waited := s.h.o.now.since(w.since) > s.patience()
	if len(t.Give) > 0 || waited {
		delete(s.waiting, p)
		w.m.Respond(pack(t))
	}
}

// give hands at most n jobs to a worker: those that nobody makes, or else a copy of the oldest one
// that another has not finished.
func (s *session) give(p *peer, n int) (list []job) {
	n = min(n, s.share(p), 2*s.share(p)+2-s.heldBy(p))
	for window := s.window(); len(list) < n && len(s.todo) > 0 && len(s.sent) < window; {
		u := s.todo[0]
		s.todo = s.todo[1:]
		if u.left == 0 { // it was handed in meanwhile, late
			continue
		}
		if s.fault("give") {
			return nil
		}
		s.sent = append(s.sent, u)
		list = append(list, s.hand(u, p))
	}
	if len(list) > 0 || n < 1 {
		return list
	}
	now := s.h.o.now()
	for _, u := range s.sent {
		if u.left == 0 || slices.Contains(u.holders, p) || now.Sub(u.sent) < s.patience() ||
			now.Sub(u.copied) < s.h.o.Lease {
			continue
		}
		if s.fault("copy") {
			return nil
		}
		s.count.Copies++
		sent := u.sent
		j := s.hand(u, p)
		u.sent, u.copied = sent, now
		return []job{j}
	}
	return nil
}

// hand makes a worker a holder of a unit.
func (s *session) hand(u *unit, p *peer) job {
	u.sent = s.h.o.now()
	u.holders = append(u.holders, p)
	if !slices.Contains(u.given, p) {
		u.given = append(u.given, p)
	}
	return job{Run: s.key, First: u.first, Count: u.count}
}

// heldBy counts the units that a worker makes.
func (s *session) heldBy(p *peer) (n int) {
	for _, u := range s.sent {
		if u.left > 0 && slices.Contains(u.holders, p) {
			n++
		}
	}
	return n
}

// release takes from a worker the units that it does not list: it never got them, or gave them up.
func (s *session) release(p *peer, held []int) {
	for _, u := range s.sent {
		if slices.Contains(u.holders, p) && !slices.Contains(held, u.first) {
			u.holders = slices.DeleteFunc(u.holders, func(o *peer) bool { return o == p })
		}
	}
}

// asked reports whether a worker was asked for an output: it had its unit.
func (s *session) asked(p *peer, i int) bool {
	u := s.units[i]
	return u != nil && slices.Contains(u.given, p)
}

// overdue puts the units back whose workers are silent, expelled or gave them up.
func (s *session) overdue() {
	var back, out []*unit
	for _, u := range s.sent {
		u.holders = slices.DeleteFunc(u.holders, func(p *peer) bool {
			return p.expelled != "" || s.h.o.now.since(p.seen) > s.h.o.Lease
		})
		switch {
		case u.left == 0:
		case len(u.holders) == 0:
			back = append(back, u)
		default:
			out = append(out, u)
		}
	}
	s.sent, s.todo = out, append(back, s.todo...)
}
