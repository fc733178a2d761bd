// Package server serves models over HTTP: OpenAI's shapes for text and pictures, streams of the
// positions as they open, and metrics.
//
// A sequence's bytes depend only on its seed, index and settings. So requests of strangers share
// passes, equal requests are computed once, and every answer has the bytes that the command writes.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"unmask/internal/memory"
	"unmask/internal/turns"
	"unmask/kvcache"
	"unmask/media/images"
	"unmask/param"
	"unmask/server/engine"
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
	Memory int64
	// bytes a model of keys and values of what calls began with, for those that begin alike (see
	// generate.PoolOptions.Store); 0 means 1 GiB, below 0 none
	Keep    int64
	Cache   int64         // bytes of answers that are kept; 0 means 64 MiB
	Timeout time.Duration // for a request; 0 means 600 s
	Rows    int           // of one pass; 0 means 2048
	Log     *slog.Logger  // a line a request; nil: none
	Page    http.Handler  // at /; nil: none
	Version string        // in /version
	Voices  string        // folder of voice files for /v1/audio/speech; "": none
	Expect  int           // models that are added later; until then /readyz is loading
}

// Server serves models. Its methods may be called at once.
type Server struct {
	o       Options
	origins *origins
	times   times
	now     func() time.Time // of calls and passes
	stats   *stats
	ctx     context.Context // ends when all calls are given up
	stop    context.CancelFunc
	calls   *engine.Calls
	group   sync.WaitGroup // engines
	streams atomic.Int64   // that are open

	mu     sync.Mutex
	models []*servedModel
	visits map[[2]string]int // requests that make passes of their own, by model and owner

	filmMu sync.Mutex   // one GIF is drawn at a time
	bodies *turns.Turns // bytes of JSON that is being read
	forms  *turns.Turns // of forms and pictures
	pixels *turns.Turns // of pictures that are unfolded
}

// check returns an error for options that no server can run with.
func (o *Options) check() error {
	least := func(ok bool, name string, found any) error {
		return param.RefuseUnless(ok, name, fmt.Sprint(found), "more than 0, or 0 for the usual",
			param.OutOfRange)
	}
	_, err := os.ReadDir(o.Voices)
	return cmp.Or(least(o.Queue >= 0, "queue", o.Queue), least(o.Memory >= 0, "memory", o.Memory),
		least(o.Cache >= 0, "cache", o.Cache), least(o.Timeout >= 0, "timeout", o.Timeout),
		least(o.Rows >= 0, "rows", o.Rows), param.RefuseUnless(o.Voices == "" || err == nil, "voices",
			param.Quote(o.Voices), "a folder that can be read", param.NoSuch))
}

// New returns a server without models, or a *param.Error for options that are wrong.
func New(o Options) (*Server, error) {
	origins, err := newOrigins(o)
	if err = cmp.Or(o.check(), err); err != nil {
		return nil, err
	}
	o.Queue = cmp.Or(o.Queue, 64)
	if o.Memory == 0 {
		o.Memory = 4 << 30
		if free, ok := memory.Available(); ok {
			o.Memory = min(o.Memory, free/4)
		}
	}
	o.Keep = cmp.Or(o.Keep, 1<<30)
	o.Cache = cmp.Or(o.Cache, 64<<20)
	o.Timeout = cmp.Or(o.Timeout, 600*time.Second)
	o.Rows = cmp.Or(o.Rows, 2048)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Server{o: o, visits: map[[2]string]int{}, times: usualTimes,
		now: time.Now, origins: origins, bodies: turns.New(64 * maxBody), forms: turns.New(8 * maxForm),
		pixels: turns.New(images.MaxPixels)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.stats = newStats(s.waits)
	s.calls = engine.NewCalls(o.Cache, s.stats)
	return s, nil
}

// Add serves a model. The first of text and the first of pictures answer requests that name none.
func (s *Server) Add(o Model) error {
	m, err := newServed(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	same := func(other *servedModel) bool { return other.name == m.name }
	if slices.ContainsFunc(s.models, same) {
		return twice(m.name)
	}
	if s.ctx.Err() != nil {
		return errors.New("the server is closed")
	}
	m.engine = engine.New(s.ctx, m.Model, engine.Options{Rows: s.o.Rows, Memory: s.o.Memory,
		Store: kvcache.NewStore(s.o.Keep),
		Queue: s.o.Queue, Calls: s.calls, Now: s.now})
	s.stats.models.WithLabelValues(m.name, m.precision, m.device, m.fingerprint()).Set(1)
	s.models = append(s.models, m)
	s.group.Go(m.engine.Run)
	return nil
}

// engines returns the engines of all models.
func (s *Server) engines() (list []*engine.Engine) {
	for _, m := range s.all() {
		list = append(list, m.engine)
	}
	return list
}

// waits returns how much waits at all models.
func (s *Server) waits() (requests int, rows int64) {
	for _, e := range s.engines() {
		n, r := e.Backlog()
		requests, rows = requests+n, rows+r
	}
	return requests, rows
}

// loading reports whether models are still to be added.
func (s *Server) loading() bool { return len(s.all()) < max(s.o.Expect, 1) }

// Drain refuses new calls, gives up what waits, and returns when what has begun is done, or when
// ctx ends.
func (s *Server) Drain(ctx context.Context) {
	s.calls.Drain()
	for _, e := range s.engines() {
		e.Drain()
	}
	for slices.ContainsFunc(s.engines(), (*engine.Engine).Busy) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close gives up all calls and waits until nothing runs any more.
func (s *Server) Close() {
	s.calls.Drain()
	s.abandonAll()
	s.mu.Lock() // nothing is added to the group after it
	s.stop()
	s.mu.Unlock()
	s.group.Wait()
	s.calls.Wait()
}
