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
	h        *Hub
	r        Run
	key      string // of the run: settings and plan
	plan     []byte
	planHash string
	first    string // digest of output 0
	files    map[string]string
	subs     []*nats.Subscription
	woken    chan struct{}
	began    time.Time

	mu      sync.Mutex // of all below
	dead    bool
	failed  error
	already int           // outputs that were in the store before this hub began
	missing int           // outputs
	todo    []*unit       // that nobody makes
	sent    []*unit       // at workers, oldest first
	units   map[int]*unit // of each output that was missing
	by      map[int]string
	peers   map[string]*peer         // by name
	keys    map[string]*peer         // by the key of its connection
	joins   map[string]*rate.Limiter // by that key
	waiting map[*peer]*waiter
	working int // peers that are there
	count   Counts
}

// peer is a worker that joined.
type peer struct {
	name     string // that no other has
	device   string
	made     int
	rate     float64 // outputs a second
	seen     time.Time
	expelled string // why
}

// loop serves workers until all is done. own reports the end of this machine's worker.
func (s *session) loop(ctx context.Context, own <-chan error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	shown := s.h.o.now()
	for {
		finished, err := s.step()
		if s.isDead() {
			return errKilled
		}
		if finished || err != nil {
			s.show()
			return err
		}
		if s.h.o.now.since(shown) >= time.Second {
			shown = s.h.o.now()
			s.show()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-own:
			return cmp.Or(s.failure(), err, errors.New("this machine's worker ended"))
		case <-s.woken:
		case <-tick.C:
		}
	}
}

func (s *session) show() {
	if s.h.o.Watch != nil {
		s.h.o.Watch(s.status())
	}
}

func (s *session) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// fault asks the test whether the process ends here.
func (s *session) fault(op string) bool {
	if !s.dead && s.h.o.fault(op) {
		s.dead = true
		s.wake()
	}
	return s.dead
}

// wake makes the loop look again.
func (s *session) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// step puts back what is overdue, answers workers that wait, and reports whether all is done.
func (s *session) step() (finished bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil || s.dead {
		return false, s.failed
	}
	s.overdue()
	s.forget()
	for _, p := range slices.SortedFunc(maps.Keys(s.waiting), func(a, b *peer) int {
		return s.waiting[a].since.Compare(s.waiting[b].since)
	}) {
		if s.answer(p); s.dead {
			return false, nil
		}
	}
	return s.missing == 0, nil
}

// forget counts the workers that are there, and drops those that made nothing and are long gone.
func (s *session) forget() {
	s.working = 0
	for key, p := range s.keys {
		if s.here(p) {
			s.working++
		} else if p.made == 0 && p.expelled == "" && s.h.o.now.since(p.seen) > 100*s.h.o.Lease {
			delete(s.keys, key)
			delete(s.peers, p.name)
			delete(s.waiting, p)
		}
	}
}

// window is the largest number of units at workers: 4 jobs a worker, which limits what waits
// for earlier outputs.
func (s *session) window() int {
	n := 4
	for _, p := range s.peers {
		if s.here(p) {
			n += 4 * s.share(p)
		}
	}
	return min(n, s.h.o.Queue)
}

// Times of a job. One is this long by the worker's speed, unless there are too few.
const jobTime = 30 * time.Second

// share is the number of units that a worker takes at once: half a minute's work, but few enough to
// leave 20 jobs for each worker over the whole run, and two over the rest.
func (s *session) share(p *peer) int {
	size := 1
	if u := slices.Concat(s.sent[:min(1, len(s.sent))], s.todo[:min(1, len(s.todo))]); len(u) > 0 {
		size = u[len(u)-1].count
	}
	workers := max(1, s.working)
	n := int(p.rate * jobTime.Seconds() / float64(size))
	n = min(n, s.r.N/size/(20*workers), (len(s.todo)+len(s.sent))/(2*workers))
	return max(1, n)
}

// patience is the time after which an idle worker gets an answer to its wish, and a copy of a job
// that another worker has.
func (s *session) patience() time.Duration { return min(time.Second, s.h.o.Lease/4) }

// here reports whether a worker is one of the run, and has said something in the last two leases.
func (s *session) here(p *peer) bool {
	return p.expelled == "" && s.h.o.now.since(p.seen) < 2*s.h.o.Lease
}

// finished counts an output that is in the store.
func (s *session) finished(i int, by string) {
	s.by[i] = by
	s.missing--
	u := s.units[i]
	if u.left--; u.left == 0 {
		s.wake()
	}
}

// Status describes the progress of a run.
type Status struct {
	Done    int            `json:"done"` // outputs that are there
	N       int            `json:"n"`
	Rate    float64        `json:"rate"`         // outputs a second since the hub began
	Left    float64        `json:"seconds_left"` // -1 where it is not known
	Workers []WorkerStatus `json:"workers"`
	Counts
}

// WorkerStatus is a worker as the hub sees it.
type WorkerStatus struct {
	Name     string  `json:"name"`
	Device   string  `json:"device"`
	Made     int     `json:"made"`
	Rate     float64 `json:"rate"`      // outputs a second, by its own clock
	Seen     float64 `json:"last_sign"` // seconds ago
	Expelled string  `json:"expelled,omitempty"`
}

// Counts are the numbers of events besides outputs.
type Counts struct {
	Copies     int `json:"copies"`     // of late jobs
	Duplicates int `json:"duplicates"` // outputs that were there already
	Damaged    int `json:"damaged"`    // results that arrived with other bytes than were sent
	Dropped    int `json:"dropped"`    // messages that were none, or not asked for
	Refused    int `json:"refused"`    // requests to join
	Expelled   int `json:"expelled"`   // workers
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
	const shown = 6
	for i, w := range s.Workers {
		if i == shown {
			line += fmt.Sprintf(" and %d more", len(s.Workers)-shown)
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

// status is the state now.
func (s *session) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Done: s.r.N - s.missing, N: s.r.N, Left: -1, Counts: s.count}
	if made := st.Done - s.already; made > 0 {
		st.Rate = float64(made) / s.h.o.now.since(s.began).Seconds()
		st.Left = float64(s.missing) / st.Rate
	}
	for _, name := range slices.Sorted(maps.Keys(s.peers)) {
		p := s.peers[name]
		st.Workers = append(st.Workers, WorkerStatus{p.name, p.device, p.made, p.rate,
			s.h.o.now.since(p.seen).Seconds(), p.expelled})
	}
	return st
}
