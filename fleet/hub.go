//go:build !nofleet

package fleet

import (
	"cmp"
	"context"
	"encoding/json"
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
	// Listen is HOST:PORT of the server in this process. Workers beyond loopback use TLS.
	Listen string

	// URL is that of an outside NATS.
	URL string

	// Secrets is a file that keeps who the hub is, so that it can begin again. "" is none.
	Secrets string

	// Lease is the time after which a silent worker's jobs go to others. 0 is a minute.
	Lease time.Duration

	// Queue bounds the jobs that workers hold. 0 is 4096.
	Queue int

	// Unit is the number of outputs of the smallest job. 0 chooses it by their time.
	Unit int

	Info Info

	// Say gets messages. It may be nil.
	Say func(line string)

	// Watch gets the state each second. It may be nil.
	Watch func(s Status)

	// now is time.Now where it is nil.
	now clock
}

// Info describes a machine, for messages and for comparing what must be equal.
type Info struct {
	// Build is the version of the program.
	Build string

	// Go is the version of Go.
	Go string

	// Platform is such as linux/amd64.
	Platform string

	// Device is what computes.
	Device string
}

// Defaults of HubOptions.
const (
	defaultLease = time.Minute
	defaultQueue = 4096
)

// Hub lets workers join, and makes runs with them.
type Hub struct {
	o      HubOptions
	engine *engine

	mu sync.Mutex

	// latest is the session of the current run or, between runs, of the last one.
	latest *session
}

// OpenHub starts to listen. Close ends it. An error is that of the secrets' file or of the address.
func OpenHub(o HubOptions) (*Hub, error) {
	o.Lease = cmp.Or(o.Lease, defaultLease)
	o.Queue = cmp.Or(o.Queue, defaultQueue)
	if o.Say == nil {
		o.Say = func(string) {}
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
	h := &Hub{o: o, engine: e}
	if err := keys.write(o.Secrets, h.JoinLine()); err != nil {
		e.close()
		return nil, err
	}
	return h, nil
}

// JoinLine returns the line by which workers join. It has the token.
func (h *Hub) JoinLine() string { return h.engine.join.String() }

// Status returns the state of the run.
func (h *Hub) Status() Status {
	h.mu.Lock()
	s := h.latest
	h.mu.Unlock()
	if s == nil {
		return Status{}
	}
	return s.status()
}

// Close ends the hub. If the work is complete, workers are told that no further run comes, and the
// secrets are removed; otherwise workers wait for the hub to begin again.
func (h *Hub) Close(complete bool) error {
	defer h.engine.close()
	if !complete {
		return nil
	}
	err := h.sendLastOver()
	if h.o.Secrets != "" {
		removeErr := os.Remove(h.o.Secrets)
		err = cmp.Or(err, removeErr)
	}
	if server := h.engine.server; server != nil {
		// What was sent is on its way until the workers leave. It is sent again for those that have
		// only just come.
		deadline := time.Now().Add(5 * time.Second)
		for server.NumClients() > 1 && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
			_ = h.sendLastOver()
		}
	}
	return err
}

// sendLastOver tells the workers that are connected that no further run comes.
func (h *Hub) sendLastOver() error {
	conn := h.engine.conn
	publishErr := conn.Publish(subject(h.engine.join.ID, "over"), pack(overMessage{Last: true}))
	flushErr := conn.FlushTimeout(5 * time.Second)
	return cmp.Or(publishErr, flushErr)
}

// Run makes the outputs that the store still lacks, with this machine and all workers that join,
// and returns when every output is in the store. An error of the store, such as a full disk, ends
// it, and the same call made again continues. If an output of this machine turns out to be wrong,
// that is an error too.
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
	h.latest = s
	h.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.listen(); err != nil {
		return err
	}
	workerEnd := make(chan error, 1)
	go func() {
		defer close(workerEnd) // serve may have received its error already
		workerEnd <- s.work(ctx)
	}()
	err = s.serve(ctx, workerEnd)
	s.end(err == nil)
	cancel(nil)
	<-workerEnd
	return err
}

// newSession makes the plan that workers get. Trees are sorted, so that the same run always has the
// same plan and the same key: a hub that was started again goes on with the workers that it had.
func newSession(h *Hub, r Run) (*session, error) {
	s := &session{
		hub:       h,
		run:       r,
		filePlace: placesByHash(r.Trees),
		woken:     make(chan struct{}, 1),
		began:     h.o.now(),
		units:     map[int]*unit{},
		makerOf:   map[int]string{},
		peers:     map[string]*peer{},
		peerOfKey: map[string]*peer{},
		joinRates: map[string]*rate.Limiter{},
		waiters:   map[*peer]*waiter{},
	}
	trees := slices.SortedFunc(slices.Values(r.Trees), func(a, b Tree) int {
		return strings.Compare(a.Name, b.Name)
	})
	var err error
	s.plan, err = json.Marshal(plan{r.Spec, trees})
	if err != nil {
		return nil, err
	}
	if len(s.plan) > maxSpec {
		return nil, fmt.Errorf("the plan for workers takes %d bytes, want at most %d", len(s.plan),
			maxSpec)
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
// splits what is missing into units.
func (s *session) begin(ctx context.Context, pending []int) error {
	first, seconds, err := s.run.Maker.makeFirst(ctx, s.hub.o.now)
	if err != nil {
		return err
	}
	s.firstDigest = s.run.DigestOf(first.Data)
	stored, ok := s.run.Store.Digest(0)
	if ok && stored != s.firstDigest {
		return fmt.Errorf("output 0 is there with hash %.12s, made now it has %.12s: this program, its "+
			"Go or its device is another than the one that began the run, want the same", stored,
			s.firstDigest)
	}
	if !ok {
		if err := s.run.Store.Put(0, first.Seed, first.Data); err != nil {
			return err
		}
		s.makerOf[0] = ownName
		pending = pending[1:]
	}
	s.doneBefore = s.run.N - len(pending)
	s.missing = len(pending)

	size := s.hub.o.Unit
	if size == 0 { // a unit takes a few seconds, and there are enough of them for many workers
		size = int(max(1, min(2/max(seconds, 1e-6), float64(s.run.N)/256)))
	}
	s.splitUnits(pending, size)
	return nil
}

// listen begins to answer workers.
func (s *session) listen() error {
	conn := s.hub.engine.conn
	for _, listener := range []struct {
		name   string
		handle func(m *nats.Msg)
	}{
		{"hello.*", s.onJoin},
		{"done.*", s.onResult},
		{"blob.*", s.onBlobRequest},
	} {
		sub, err := conn.Subscribe(subject(s.hub.engine.join.ID, listener.name), listener.handle)
		if err != nil {
			return err
		}
		// What does not fit is dropped, and its sender asks again.
		if err := sub.SetPendingLimits(1<<16, 512<<20); err != nil {
			return err
		}
		s.subscriptions = append(s.subscriptions, sub)
	}
	return conn.Flush()
}

// end stops answering. Workers are told if the run is finished.
func (s *session) end(isFinished bool) {
	for _, sub := range s.subscriptions {
		sub.Unsubscribe()
	}
	s.mu.Lock() // no handler runs any more
	s.hasEnded = true
	s.mu.Unlock()
	e := s.hub.engine
	if isFinished {
		e.conn.Publish(subject(e.join.ID, "over"), pack(overMessage{Run: s.key}))
	}
	e.conn.FlushTimeout(5 * time.Second)
}
