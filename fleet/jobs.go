//go:build !nofleet

package fleet

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// unit is the smallest job: outputs first to first+count-1.
type unit struct {
	first int
	count int

	// missing counts the outputs that are not in the store.
	missing int

	// sentAt is when the unit went out, copiedAt when a copy of it went out last.
	sentAt   time.Time
	copiedAt time.Time

	// holders are the workers that make it now.
	holders []*peer

	// recipients are the workers that ever got it, and may hand in its outputs.
	recipients []*peer
}

// waiter is a worker that asked for jobs when there were none.
type waiter struct {
	request *nats.Msg

	// wanted is the number of jobs that it asked for.
	wanted int

	since time.Time
}

// splitUnits splits the outputs that are missing into units of at most size neighbouring outputs.
func (s *session) splitUnits(pending []int, size int) {
	slices.Sort(pending)
	var u *unit
	for _, i := range pending {
		if u == nil || i != u.first+u.count || u.count == size {
			u = &unit{first: i}
			s.waitingUnits = append(s.waitingUnits, u)
		}
		u.count++
		u.missing++
		s.units[i] = u
	}
}

// answerWaiter answers a worker that waits, if there is something for it or if it has waited for
// long.
func (s *session) answerWaiter(p *peer) {
	w := s.waiters[p]
	reply := ack{Jobs: s.jobLimit(p), Give: s.giveJobs(p, w.wanted)}
	isLate := s.hub.o.now.since(w.since) > s.patience()
	if len(reply.Give) > 0 || isLate {
		delete(s.waiters, p)
		w.request.Respond(pack(reply))
	}
}

// giveJobs hands at most n jobs to a worker: those that nobody makes, or else a copy of the oldest
// one that another has not finished.
//
// However many a worker asks for, it holds at most two rounds of its limit and two more: enough to
// be busy while its results travel, and few enough that a worker which takes jobs and makes none
// keeps little from the others.
func (s *session) giveJobs(p *peer, n int) (jobs []job) {
	limit := s.jobLimit(p)
	n = min(n, limit, 2*limit+2-s.countHeld(p))
	maxSent := s.maxSentUnits()
	for len(jobs) < n && len(s.waitingUnits) > 0 && len(s.sentUnits) < maxSent {
		u := s.waitingUnits[0]
		s.waitingUnits = s.waitingUnits[1:]
		if u.missing == 0 { // it was handed in meanwhile, late
			continue
		}
		s.sentUnits = append(s.sentUnits, u)
		u.sentAt = s.hub.o.now()
		jobs = append(jobs, s.assign(u, p))
	}
	if len(jobs) > 0 || n < 1 {
		return jobs
	}
	return s.copyJob(p)
}

// copyJob hands a worker a copy of the oldest unit that another has had for long: that one may be
// slow, or gone without a word.
func (s *session) copyJob(p *peer) []job {
	now := s.hub.o.now()
	for _, u := range s.sentUnits {
		if u.missing == 0 || slices.Contains(u.holders, p) || now.Sub(u.sentAt) < s.patience() ||
			now.Sub(u.copiedAt) < s.hub.o.Lease {
			continue
		}
		s.counts.Copies++
		u.copiedAt = now
		return []job{s.assign(u, p)}
	}
	return nil
}

// assign makes a worker a holder of a unit.
func (s *session) assign(u *unit, p *peer) job {
	u.holders = append(u.holders, p)
	if !slices.Contains(u.recipients, p) {
		u.recipients = append(u.recipients, p)
	}
	return job{Run: s.key, First: u.first, Count: u.count}
}

// countHeld counts the units that a worker makes.
func (s *session) countHeld(p *peer) (n int) {
	for _, u := range s.sentUnits {
		if u.missing > 0 && slices.Contains(u.holders, p) {
			n++
		}
	}
	return n
}

// keepOnly takes from a worker the units that are not among held, by their first outputs: it never
// got them, or gave them up. A message may be lost on either way, so the worker's own list counts,
// not the hub's memory of what it sent; otherwise a unit that went missing would wait for its
// lease, which a worker that lives renews without end.
func (s *session) keepOnly(p *peer, held []int) {
	for _, u := range s.sentUnits {
		if slices.Contains(u.holders, p) && !slices.Contains(held, u.first) {
			u.holders = slices.DeleteFunc(u.holders, func(o *peer) bool { return o == p })
		}
	}
}

// wasAsked reports whether a worker was asked for an output: it had its unit. It need not have it
// any more: what a late worker made is as right as what another makes now.
func (s *session) wasAsked(p *peer, i int) bool {
	u := s.units[i]
	return u != nil && slices.Contains(u.recipients, p)
}

// takeBackUnits puts the units back whose workers are silent, expelled or gave them up. They go to
// the front of the queue: a store that writes in order waits for the lowest outputs.
func (s *session) takeBackUnits() {
	var returned, stillSent []*unit
	for _, u := range s.sentUnits {
		u.holders = slices.DeleteFunc(u.holders, func(p *peer) bool {
			return p.expelReason != "" || s.hub.o.now.since(p.lastSeen) > s.hub.o.Lease
		})
		switch {
		case u.missing == 0:
		case len(u.holders) == 0:
			returned = append(returned, u)
		default:
			stillSent = append(stillSent, u)
		}
	}
	s.sentUnits = stillSent
	s.waitingUnits = append(returned, s.waitingUnits...)
}
