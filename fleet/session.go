//go:build !nofleet

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

// ownName is the name of the hub's own worker.
const ownName = "hub"

// session is a run at a hub.
type session struct {
	hub *Hub
	run Run

	// key identifies the run by its settings and its plan.
	key string

	// plan is what workers get, planHash its SHA-256.
	plan     []byte
	planHash string

	// firstDigest is that of output 0.
	firstDigest string

	// filePlace has the places of the files that the plan needs, by hash.
	filePlace map[string]string

	subscriptions []*nats.Subscription

	// woken receives when serve should look again.
	woken chan struct{}

	began time.Time

	// mu guards the fields below.
	mu sync.Mutex

	// hasEnded reports whether the session has ended. What arrives after that is dropped.
	hasEnded bool

	// failed is why the run cannot go on.
	failed error

	// doneBefore counts the outputs that were in the store before this hub began, missing those that
	// are not in it.
	doneBefore int
	missing    int

	// waitingUnits are those that nobody makes.
	waitingUnits []*unit

	// sentUnits are those that workers make, the oldest first.
	sentUnits []*unit

	// units has the unit of each output that was missing.
	units map[int]*unit

	// makerOf has the name of the worker that made an output.
	makerOf map[int]string

	// peers are the workers that joined, by name, and by the key of their connection.
	peers     map[string]*peer
	peerOfKey map[string]*peer

	// joinRates limit the requests to join, by the key of their connection.
	joinRates map[string]*rate.Limiter

	waiters map[*peer]*waiter

	// present counts the peers that were heard of lately.
	present int

	counts Counts
}

// peer is a worker that joined.
type peer struct {
	// name is one that no other worker has.
	name string

	device string

	// made counts the outputs that it was the first to make.
	made int

	// rate is in outputs a second.
	rate float64

	lastSeen time.Time

	// expelReason is why nothing is accepted from it any more, "" for a worker in good standing.
	expelReason string
}

// serve serves workers until all is done. workerEnd receives the end of this machine's worker.
func (s *session) serve(ctx context.Context, workerEnd <-chan error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	shownAt := s.hub.o.now()
	for {
		finished, err := s.step()
		if finished || err != nil {
			s.showStatus()
			return err
		}
		if s.hub.o.now.since(shownAt) >= time.Second {
			shownAt = s.hub.o.now()
			s.showStatus()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-workerEnd:
			return cmp.Or(s.failure(), err, errors.New("this machine's worker ended"))
		case <-s.woken:
		case <-ticker.C:
		}
	}
}

// showStatus hands the state to HubOptions.Watch.
func (s *session) showStatus() {
	if s.hub.o.Watch != nil {
		s.hub.o.Watch(s.status())
	}
}

// failure returns why the session has failed, nil if it has not.
func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// wake makes serve look again.
func (s *session) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// step takes back the units of silent workers, answers workers that wait, and reports whether all
// is done.
func (s *session) step() (finished bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return false, s.failed
	}
	s.takeBackUnits()
	s.dropOldPeers()
	byTime := func(a, b *peer) int { return s.waiters[a].since.Compare(s.waiters[b].since) }
	for _, p := range slices.SortedFunc(maps.Keys(s.waiters), byTime) {
		s.answerWaiter(p)
	}
	return s.missing == 0, nil
}

// dropOldPeers counts the workers that are present, and drops those that made nothing and are long
// gone. Others stay for the record of who made what.
func (s *session) dropOldPeers() {
	s.present = 0
	for key, p := range s.peerOfKey {
		if s.isPresent(p) {
			s.present++
			continue
		}
		isOld := s.hub.o.now.since(p.lastSeen) > 100*s.hub.o.Lease
		if p.made == 0 && p.expelReason == "" && isOld {
			delete(s.peerOfKey, key)
			delete(s.peers, p.name)
			delete(s.waiters, p)
		}
	}
}

// maxSentUnits is the largest number of units at workers: 4 jobs a worker. It bounds the outputs
// that wait in the store for earlier ones.
func (s *session) maxSentUnits() int {
	n := 4
	for _, p := range s.peers {
		if s.isPresent(p) {
			n += 4 * s.jobLimit(p)
		}
	}
	return min(n, s.hub.o.Queue)
}

// jobTime is how long the units that a worker takes at once keep it busy, at its speed so far.
const jobTime = 30 * time.Second

// jobLimit is the number of units that a worker takes at once: half a minute's work, but few enough
// to leave 20 jobs for each worker over the whole run, and two over the rest.
func (s *session) jobLimit(p *peer) int {
	unitSize := 1
	if len(s.waitingUnits) > 0 {
		unitSize = s.waitingUnits[0].count
	} else if len(s.sentUnits) > 0 {
		unitSize = s.sentUnits[0].count
	}
	workers := max(1, s.present)
	bySpeed := int(p.rate * jobTime.Seconds() / float64(unitSize))
	ofAll := s.run.N / unitSize / (20 * workers)
	ofRest := (len(s.waitingUnits) + len(s.sentUnits)) / (2 * workers)
	return max(1, min(bySpeed, ofAll, ofRest))
}

// patience is the time after which an idle worker gets an answer to its wish, and a copy of a job
// that another worker has.
func (s *session) patience() time.Duration { return min(time.Second, s.hub.o.Lease/4) }

// isPresent reports whether a worker is one of the run, and was heard of in the last two leases.
func (s *session) isPresent(p *peer) bool {
	return p.expelReason == "" && s.hub.o.now.since(p.lastSeen) < 2*s.hub.o.Lease
}

// markStored counts an output that is in the store.
func (s *session) markStored(i int, maker string) {
	s.makerOf[i] = maker
	s.missing--
	u := s.units[i]
	u.missing--
	if u.missing == 0 {
		s.wake()
	}
}

// Status describes the progress of a run.
type Status struct {
	// Done counts the outputs that are in the store, of N.
	Done int `json:"done"`
	N    int `json:"n"`

	// Rate is in outputs a second since the hub began.
	Rate float64 `json:"rate"`

	// Left is in seconds, -1 where it is not known.
	Left float64 `json:"seconds_left"`

	Workers []WorkerStatus `json:"workers"`
	Counts
}

// WorkerStatus is a worker as the hub sees it.
type WorkerStatus struct {
	Name   string `json:"name"`
	Device string `json:"device"`
	Made   int    `json:"made"`

	// Rate is in outputs a second, by the worker's own clock.
	Rate float64 `json:"rate"`

	// Seen is the number of seconds since the worker was heard of.
	Seen float64 `json:"last_sign"`

	// Expelled is why the worker was expelled, "" if it was not.
	Expelled string `json:"expelled,omitempty"`
}

// Counts are the numbers of events besides outputs.
type Counts struct {
	// Copies counts copies of late jobs.
	Copies int `json:"copies"`

	// Duplicates counts outputs that were in the store already.
	Duplicates int `json:"duplicates"`

	// Damaged counts results that arrived with other bytes than were sent.
	Damaged int `json:"damaged"`

	// Dropped counts messages that could not be read, or were not asked for.
	Dropped int `json:"dropped"`

	// Refused counts requests to join.
	Refused int `json:"refused"`

	// Expelled counts workers.
	Expelled int `json:"expelled"`
}

// String is one line.
func (s Status) String() string {
	line := fmt.Sprintf("%d of %d, %.3g/s", s.Done, s.N, s.Rate)
	if s.Left >= 0 {
		line += fmt.Sprintf(", %s left", (time.Duration(s.Left) * time.Second).String())
	}
	workers := 0
	for _, w := range s.Workers {
		if w.Expelled == "" {
			workers++
		}
	}
	line += fmt.Sprintf(", %d workers:", workers)
	const maxShown = 6
	for i, w := range s.Workers {
		if i == maxShown {
			line += fmt.Sprintf(" and %d more", len(s.Workers)-maxShown)
			break
		}
		if w.Expelled != "" {
			line += fmt.Sprintf(" %s expelled", w.Name)
			continue
		}
		line += fmt.Sprintf(" %s %.3g/s", w.Name, w.Rate)
		if w.Seen > 20 {
			line += fmt.Sprintf(" (silent for %.0f s)", w.Seen)
		}
	}
	return line
}

// status returns the state now.
func (s *session) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Done: s.run.N - s.missing, N: s.run.N, Left: -1, Counts: s.counts}
	if madeNow := st.Done - s.doneBefore; madeNow > 0 {
		st.Rate = float64(madeNow) / s.hub.o.now.since(s.began).Seconds()
		st.Left = float64(s.missing) / st.Rate
	}
	for _, name := range slices.Sorted(maps.Keys(s.peers)) {
		p := s.peers[name]
		st.Workers = append(st.Workers, WorkerStatus{
			Name:     p.name,
			Device:   p.device,
			Made:     p.made,
			Rate:     p.rate,
			Seen:     s.hub.o.now.since(p.lastSeen).Seconds(),
			Expelled: p.expelReason,
		})
	}
	return st
}
