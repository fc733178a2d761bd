//go:build !nofleet

package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

// HubOptions say where workers find a hub, and how it treats them. One of Listen and URL is set.
type HubOptions struct {
	Listen  string // HOST:PORT of the server in this process; workers beyond loopback use TLS
	URL     string // of an outside NATS
	Secrets string // file that keeps who the hub is, so that it can begin again; "" for none

	Lease time.Duration // after which a silent worker's jobs go to others; 0 is a minute
	Queue int           // jobs that are out at most; 0 is 4096
	Unit  int           // outputs of the smallest job; 0 chooses by their time

	Info  Info
	Say   func(line string)    // gets messages; nil: nobody
	Watch func(s Status)       // gets the state each second; nil: nobody
	fault func(op string) bool // is asked at each operation; true is the process's end
	now   clock                // nil: time.Now
}

// Info describes a machine, for messages and for comparing what must be equal.
type Info struct {
	Build    string // of the program
	Go       string // version
	Platform string // such as linux/amd64
	Device   string // what computes
}

// Defaults of HubOptions.
const (
	defaultLease = time.Minute
	defaultQueue = 4096
)

// Hub lets workers join, and makes runs with them.
type Hub struct {
	o HubOptions
	e *engine

	mu   sync.Mutex
	last *session // of the run that is made, or was
}

// OpenHub starts to listen. Close ends it.
func OpenHub(o HubOptions) (*Hub, error) {
	o.Lease = cmp.Or(o.Lease, defaultLease)
	o.Queue = cmp.Or(o.Queue, defaultQueue)
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.fault == nil {
		o.fault = func(string) bool { return false }
	}
	if o.now == nil {
		o.now = time.Now
	}
	keys, err := openSecrets(o.Secrets)
	if err != nil {
		return nil, err
	}
	e, err := openEngine(o, keys)
	if err != nil {
		return nil, err
	}
	h := &Hub{o: o, e: e}
	if err := keys.write(o.Secrets, h.JoinLine()); err != nil {
		e.close()
		return nil, err
	}
	return h, nil
}

// JoinLine returns the line by which workers join. It has the token.
func (h *Hub) JoinLine() string { return h.e.join.String() }

// Status returns the state of the run.
func (h *Hub) Status() Status {
	h.mu.Lock()
	s := h.last
	h.mu.Unlock()
	if s == nil {
		return Status{}
	}
	return s.status()
}

// Close ends the hub. Where all is done, workers are told that no run comes any more, and the
// secrets are removed; otherwise workers wait for the hub to begin again.
func (h *Hub) Close(done bool) error {
	var err error
	if done {
		err = h.sayOver()
		if h.o.Secrets != "" {
			err = cmp.Or(err, os.Remove(h.o.Secrets))
		}
	}
	if s := h.e.server; done && s != nil { // what was sent is on its way until they leave
		for wait := time.Now(); s.NumClients() > 1 && time.Since(wait) < 5*time.Second; {
			time.Sleep(50 * time.Millisecond)
			_ = h.sayOver() // to who has only just come
		}
	}
	h.e.close()
	return err
}

// sayOver tells the workers that are connected that no run comes any more.
func (h *Hub) sayOver() error {
	err := h.e.conn.Publish(subject(h.e.join.ID, "over"), pack(over{Last: true}))
	return cmp.Or(err, h.e.conn.FlushTimeout(5*time.Second))
}

// over tells workers that a run is finished.
type over struct {
	Run  string `json:"run,omitempty"`
	Last bool   `json:"last,omitempty"` // no run follows
}

// errKilled ends a hub or a worker that a test killed.
var errKilled = errors.New("killed")

// Run makes what the run still lacks, with this machine and all workers that join, and returns when
// every output is in the store. An error of the store, such as of a full disk, ends it; the same
// call goes on. Where an output of this machine turns out wrong, that is an error too.
func (h *Hub) Run(ctx context.Context, r Run) error {
	pending := r.Store.Pending(r.N)
	if len(pending) == 0 {
		return nil
	}
	s, err := newSession(h, r)
	if err != nil {
		return err
	}
	if err := s.begin(ctx, pending); err != nil {
		return err
	}
	if s.missing == 0 {
		return nil
	}
	h.mu.Lock()
	h.last = s
	h.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.listen(); err != nil {
		return err
	}
	own := make(chan error, 1)
	go func() {
		defer close(own) // its end may have been seen already
		own <- s.work(ctx)
	}()
	err = s.loop(ctx, own)
	if s.isDead() {
		return errKilled
	}
	s.end(err == nil)
	cancel(nil)
	<-own
	return err
}

// newSession makes the plan that workers get.
func newSession(h *Hub, r Run) (*session, error) {
	s := &session{h: h, r: r, units: map[int]*unit{}, by: map[int]string{}, peers: map[string]*peer{},
		keys: map[string]*peer{}, joins: map[string]*rate.Limiter{}, waiting: map[*peer]*waiter{},
		files: where(r.Trees),
		woken: make(chan struct{}, 1), began: h.o.now()}
	var err error
	trees := slices.SortedFunc(slices.Values(r.Trees), func(a, b Tree) int {
		return strings.Compare(a.Name, b.Name)
	})
	if s.plan, err = json.Marshal(plan{r.Spec, trees}); err != nil {
		return nil, err
	}
	if len(s.plan) > maxSpec {
		return nil, fmt.Errorf("what workers are to make takes %d bytes to say, want at most %d",
			len(s.plan), maxSpec)
	}
	settings, err := json.Marshal(r.Settings)
	if err != nil {
		return nil, err
	}
	s.planHash = digest(s.plan)
	s.key = digest(append(settings, s.planHash...))[:16]
	return s, nil
}

// begin makes the run's first output on this machine, which those of workers are compared with, and
// cuts what is missing into units.
func (s *session) begin(ctx context.Context, pending []int) error {
	first, seconds, err := s.r.Maker.first(ctx, s.h.o.now)
	if err != nil {
		return err
	}
	s.first = s.r.DigestOf(first.Data)
	if have, ok := s.r.Store.Digest(0); ok && have != s.first {
		return fmt.Errorf("output 0 is there with hash %.12s, made now it has %.12s: this program, its "+
			"Go or its device is another than the one that began the run, want the same", have, s.first)
	} else if !ok {
		if err := s.r.Store.Put(0, first.Seed, first.Data); err != nil {
			return err
		}
		s.by[0] = ownName
		pending = pending[1:]
	}
	s.already, s.missing = s.r.N-len(pending), len(pending)
	size := s.h.o.Unit
	if size == 0 { // a few seconds, and enough of them to go round
		size = int(max(1, min(2/max(seconds, 1e-6), float64(s.r.N)/256)))
	}
	s.cut(pending, size)
	return nil
}

// listen begins to answer workers.
func (s *session) listen() error {
	id, conn := s.h.e.join.ID, s.h.e.conn
	for _, l := range []struct {
		name   string
		handle func(m *nats.Msg)
	}{{"hello.*", s.admit}, {"done.*", s.result}, {"blob.*", s.blob}} {
		sub, err := conn.Subscribe(subject(id, l.name), l.handle)
		if err != nil {
			return err
		}
		// What does not fit is dropped, and its sender asks again.
		if err := sub.SetPendingLimits(1<<16, 512<<20); err != nil {
			return err
		}
		s.subs = append(s.subs, sub)
	}
	return conn.Flush()
}

// end stops answering. Workers are told where the run is finished.
func (s *session) end(finished bool) {
	for _, sub := range s.subs {
		sub.Unsubscribe()
	}
	s.mu.Lock() // no handler runs any more
	s.dead = true
	s.mu.Unlock()
	if finished {
		s.h.e.conn.Publish(subject(s.h.e.join.ID, "over"), pack(over{Run: s.key}))
	}
	s.h.e.conn.FlushTimeout(5 * time.Second)
}
