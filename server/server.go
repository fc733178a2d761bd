// Package server serves models over HTTP: OpenAI's shapes for text and pictures, streams of the
// positions as they open, jobs and metrics.
//
// A sequence's bytes depend only on its seed, index and settings. So requests of strangers share
// passes, equal requests are computed once, and every answer has the bytes that the command writes.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"unmask/generate"
	"unmask/internal/memory"
)

// Options bound a server. The zero value has the defaults of unmask serve. A server that listens
// beyond loopback should have Keys.
type Options struct {
	Keys    *Keys    // who may ask; nil: everybody
	Hosts   []string // names in a request's Host beside localhost, loopback and Listen's
	Origins []string // of pages elsewhere that may ask, such as https://example.org
	Listen  string   // the address that the server listens on, for Host
	Queue   int      // requests that wait; 0 means 64
	// bytes of keys and values a model; 0: a quarter of what is free, at most 4 GiB
	Memory  int64
	Cache   int64         // bytes of answers that are kept; 0 means 64 MiB
	Timeout time.Duration // for a request; 0 means 600 s
	Rows    int           // of one pass; 0 means 2048
	Log     *slog.Logger  // a line a request; nil: none
	Page    http.Handler  // at /; nil: none
	Version string        // in /version
	Expect  int           // models that are added later; until then /readyz is loading
}

// Server serves models. Its methods may be called at once.
type Server struct {
	o       Options
	origins *origins
	times   times
	now     func() time.Time // of works and passes
	stats   *stats
	begun   time.Time
	ctx     context.Context // ends when all work is given up
	stop    context.CancelFunc
	group   sync.WaitGroup // engines, and works that are being answered

	mu       sync.Mutex
	models   []*served
	draining bool
	inflight map[string]*work // by key
	results  results
	jobs     jobs
	streams  int

	films sync.Mutex // of who draws one
}

// New returns a server without models. It returns an error if one of Origins is wrong.
func New(o Options) (*Server, error) {
	o.Queue = or(o.Queue, 64)
	if o.Memory == 0 {
		o.Memory = 4 << 30
		if free, ok := memory.Available(); ok {
			o.Memory = min(o.Memory, free/4)
		}
	}
	o.Cache = or(o.Cache, 64<<20)
	o.Timeout = or(o.Timeout, 600*time.Second)
	o.Rows = or(o.Rows, 2048)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, begun: time.Now(), times: usualTimes, now: time.Now,
		inflight: map[string]*work{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.results.most = o.Cache
	s.stats = newStats(s.waits)
	var err error
	s.origins, err = newOrigins(o)
	return s, err
}

func or[T comparable](x, otherwise T) T {
	var zero T
	if x == zero {
		return otherwise
	}
	return x
}

// Add serves a model. The first of text and the first of pictures answer requests that name none.
func (s *Server) Add(o Model) error {
	m, err := newServed(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.models {
		if other.name == m.name {
			return twice(m.name)
		}
	}
	if s.ctx.Err() != nil {
		return errors.New("the server is closed")
	}
	m.engine = newEngine(s.ctx, m, engineOptions{rows: s.o.Rows, memory: s.o.Memory, queue: s.o.Queue,
		seconds: maxQueued, stats: s.stats, ended: s.finish, now: s.now})
	s.stats.served(m)
	s.models = append(s.models, m)
	s.group.Go(m.engine.run)
	return nil
}

// maxQueued is the largest amount of waiting work, in seconds.
const maxQueued = 600

// engines returns the engines of all models.
func (s *Server) engines() []*engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*engine
	for _, m := range s.models {
		list = append(list, m.engine)
	}
	return list
}

// waits returns how much work waits at all models, and the longest wait.
func (s *Server) waits() (requests int, rows int64, seconds float64) {
	for _, e := range s.engines() {
		n, r, t := e.waits()
		requests, rows, seconds = requests+n, rows+r, max(seconds, t)
	}
	return requests, rows, seconds
}

// loading reports whether models are still to be added.
func (s *Server) loading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.models) < max(s.o.Expect, 1)
}

// Drain refuses new work, gives up what waits, and returns when what has begun is done, or when ctx
// ends.
func (s *Server) Drain(ctx context.Context) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, e := range s.engines() {
		e.drain()
	}
	for {
		idle := true
		for _, e := range s.engines() {
			idle = idle && e.idle()
		}
		if idle {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close gives up all work and waits until nothing runs any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, e := range s.engines() {
		e.abandon()
	}
	s.stop()
	s.group.Wait()
}

// begin returns the work to wait for: one with the same key that runs or is done, else w, which it
// queues. The caller is counted as a watcher and must call leave.
func (s *Server) begin(w *work) (_ *work, hit bool, f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, false, shuttingDown()
	}
	if old := s.results.get(w.key); old != nil && old.watch() {
		s.stats.hit()
		return old, true, nil
	}
	if old := s.inflight[w.key]; old != nil && old.watch() {
		return old, false, nil
	}
	w.watch()
	s.inflight[w.key] = w
	if f := w.model.engine.admit(w); f != nil {
		delete(s.inflight, w.key)
		return nil, false, f
	}
	return w, false, nil
}

// leave counts one watcher less. A work without watchers is given up.
func (s *Server) leave(w *work, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.mu.Lock()
	w.watchers--
	last := w.watchers == 0
	w.mu.Unlock()
	if !last {
		return
	}
	if s.inflight[w.key] == w {
		delete(s.inflight, w.key)
	}
	if w.end(nil, fault(statusGone, "cancelled", "the request was cancelled")) {
		s.stats.cancelled(why)
		w.model.engine.poke()
	}
}

// statusGone is the status that is logged for a client that went before its answer.
const statusGone = 499

// finish makes the answer of a work whose members are all done, while the engine goes on.
func (s *Server) finish(w *work) {
	s.group.Go(func() {
		a, f := answerOf(w)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inflight[w.key] == w {
			delete(s.inflight, w.key)
		}
		if w.end(a, f) && f == nil {
			s.results.put(w)
		}
	})
}

// answerOf makes the answer. A panic is a fault of this work alone.
func answerOf(w *work) (a *answer, f *Fault) {
	defer func() {
		if r := recover(); r != nil {
			a, f = nil, fault(http.StatusInternalServerError, "answer_failed", "the answer failed: %v", r)
		}
	}()
	return w.answers(w)
}

// total sums the passes and rows of a work's members, and returns the most steps of one.
func (w *work) total() (e generate.Evaluated, steps int) {
	for _, m := range w.members {
		e.Full += m.evaluated.Full
		e.Partial += m.evaluated.Partial
		e.Head += m.evaluated.Head
		e.Drafted += m.evaluated.Drafted
		e.Accepted += m.evaluated.Accepted
		steps = max(steps, m.n)
	}
	return e, steps
}
