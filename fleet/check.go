//go:build !nofleet

package fleet

import (
	"iter"
	"slices"
	"time"
)

// check is a job that one more worker makes again, to compare its outputs with those that are
// there. It does not wait in the queue: the hub gives it to the next worker that sends a result or
// a heartbeat, and to another if that one does not make it.
type check struct {
	job   job
	not   []string // workers that may not make it
	since time.Time
	to    string    // who has it; "" before anybody had
	given time.Time // to that worker
	tries int       // workers that had it
}

// maxTries is how often a check is given to a worker before the hub does without it.
const maxTries = 4

// newCheck returns the check of count outputs from first.
func (s *session) newCheck(first, count int, not ...string) *check {
	return &check{job: job{Run: s.key, First: first, Count: count, Check: true}, not: not,
		since: s.h.o.now()}
}

// has reports whether output i is one of the check's.
func (c *check) has(i int) bool { return i >= c.job.First && i < c.job.First+c.job.Count }

// checks yields all checks whose outputs have not come yet.
func (s *session) checks() iter.Seq[*check] {
	return func(yield func(*check) bool) {
		for _, d := range s.disputes {
			if !yield(d.check) {
				return
			}
		}
		for _, a := range s.audits {
			if !yield(a.check) {
				return
			}
		}
	}
}

// checkFor returns the check that a worker is to make next, nil for none. It has one at a time.
func (s *session) checkFor(p *peer) *job {
	for c := range s.checks() {
		if c.to == p.name && s.busyWith(c) {
			return nil
		}
	}
	for c := range s.checks() {
		if s.disputes[c.job.First] != nil && s.disputes[c.job.First].check == c && s.forOwn(p, c) {
			continue
		}
		if c.tries < maxTries && !slices.Contains(c.not, p.name) && !s.busyWith(c) {
			c.to, c.given = p.name, s.h.o.now()
			c.tries++
			return &c.job
		}
	}
	return nil
}

// forOwn reports whether a dispute waits for this machine's own worker rather than p: it decides
// where it can, because a holder of the token may have several connections that agree.
func (s *session) forOwn(p *peer, c *check) bool {
	own := s.peers[ownName]
	return own != nil && p != own && s.here(own) && !slices.Contains(c.not, ownName)
}

// busyWith reports whether the worker that has a check may still make it: it is there, and has had
// two leases or, if it is slow, eight times as long as it takes for as many outputs.
func (s *session) busyWith(c *check) bool {
	p := s.peers[c.to]
	if p == nil || !s.here(p) {
		return false
	}
	slow := time.Duration(8 * float64(c.job.Count) / p.rate * float64(time.Second))
	return s.h.o.now.since(c.given) < max(2*s.h.o.Lease, slow)
}

// hopeless reports whether no worker will make a check.
func (s *session) hopeless(c *check) bool {
	return !s.busyWith(c) && (c.tries == maxTries || s.others(c.not...) == 0)
}
