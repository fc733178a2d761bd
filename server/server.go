// Package server serves models over HTTP: OpenAI's shapes for text and pictures, streams of the
// positions as they open, and metrics.
//
// A sequence's bytes depend only on its seed, index and settings. So requests of clients that do
// not know each other share passes, equal requests are computed once, and every answer has the
// bytes that the command writes.
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
	// Keys are those of the clients. With nil everybody may ask.
	Keys *Keys

	// Hosts are names in a request's Host beside localhost, loopback and Listen's.
	Hosts []string

	// Origins are those of pages elsewhere that may ask, such as https://example.org.
	Origins []string

	// Listen is the address that the server listens on, which Host may name.
	Listen string

	// Queue bounds the requests of a client that wait. 0 means 64.
	Queue int

	// Memory bounds the bytes of keys and values of a model. 0 means a quarter of what is free, at
	// most 4 GiB.
	Memory int64

	// Keep bounds the bytes, for each model, of keys and values of what calls began with, for those
	// that begin alike (see generate.PoolOptions.Store). 0 means 1 GiB, below 0 none.
	Keep int64

	// Cache bounds the bytes of answers that are kept. 0 means 64 MiB.
	Cache int64

	// Timeout is the time for a request. 0 means 600 s.
	Timeout time.Duration

	// Rows bounds the rows of one pass. 0 means 2048.
	Rows int

	// Log gets a line for each request. It may be nil.
	Log *slog.Logger

	// Page answers at /. With nil there is no page.
	Page http.Handler

	// Version is in the answer of /version.
	Version string

	// Voices is a folder of voice files for /v1/audio/speech, "" for none.
	Voices string

	// Expect is the number of models that are added later. Until then /readyz is loading.
	Expect int
}

// Server serves models. Its methods may be called concurrently.
type Server struct {
	o        Options
	origins  *origins
	timeouts timeouts

	// now is the clock of calls and passes.
	now func() time.Time

	stats *stats

	// ctx ends when all calls are given up; stop ends it.
	ctx  context.Context
	stop context.CancelFunc

	calls *engine.Calls

	// running counts engines, and requests that make passes of their own.
	running sync.WaitGroup

	// streams counts those that are open.
	streams atomic.Int64

	mu     sync.Mutex
	models []*servedModel

	// passRequests counts the requests that make passes of their own, by model and owner.
	passRequests map[[2]string]int

	// filmMu is held while a GIF is drawn.
	filmMu sync.Mutex

	// bodies, forms and pixels bound memory: bytes of JSON that is being read, bytes of forms and
	// pictures, and pixels of decoded pictures.
	bodies *turns.Turns
	forms  *turns.Turns
	pixels *turns.Turns

	// parsing lets one large body of JSON be parsed at a time.
	parsing *turns.Turns

	// longTexts lets one long text to embed be read into tokens at a time.
	longTexts *turns.Turns
}

// check returns a *param.Error for options that no server can run with.
func (o *Options) check() error {
	for _, bound := range []struct {
		name  string
		value any
		ok    bool
	}{
		{"queue", o.Queue, o.Queue >= 0},
		{"memory", o.Memory, o.Memory >= 0},
		{"cache", o.Cache, o.Cache >= 0},
		{"timeout", o.Timeout, o.Timeout >= 0},
		{"rows", o.Rows, o.Rows >= 0},
	} {
		err := param.RefuseUnless(bound.ok, bound.name, fmt.Sprint(bound.value),
			"more than 0, or 0 for the default", param.OutOfRange)
		if err != nil {
			return err
		}
	}
	if o.Voices == "" {
		return nil
	}
	_, err := os.ReadDir(o.Voices)
	return param.RefuseUnless(err == nil, "voices", param.Quote(o.Voices),
		"a folder that can be read", param.NoSuch)
}

// New returns a server without models, or a *param.Error for options that are wrong.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	origins, err := newOrigins(o)
	if err != nil {
		return nil, err
	}
	if o.Memory == 0 {
		o.Memory = 4 << 30
		if free, ok := memory.Available(); ok {
			o.Memory = min(o.Memory, free/4)
		}
	}
	o.Queue = cmp.Or(o.Queue, 64)
	o.Keep = cmp.Or(o.Keep, 1<<30)
	o.Cache = cmp.Or(o.Cache, 64<<20)
	o.Timeout = cmp.Or(o.Timeout, 600*time.Second)
	o.Rows = cmp.Or(o.Rows, 2048)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))

	s := &Server{
		o:            o,
		origins:      origins,
		timeouts:     defaultTimeouts,
		now:          time.Now,
		passRequests: map[[2]string]int{},
		bodies:       turns.New(64 * maxJSON),
		forms:        turns.New(8 * maxForm),
		parsing:      turns.New(1),
		longTexts:    turns.New(1),
		pixels:       turns.New(images.MaxPixels),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.stats = newStats(s.backlog)
	s.calls = engine.NewCalls(o.Cache, s.stats)
	return s, nil
}

// Add serves a model. The first of text and the first of pictures answer requests that name none.
// It returns an error for a name that is taken or that requests could not give.
func (s *Server) Add(o Model) error {
	m, err := newServedModel(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sameName := func(other *servedModel) bool { return other.name == m.name }
	if slices.ContainsFunc(s.models, sameName) {
		return duplicateName(m.name)
	}
	if s.ctx.Err() != nil {
		return errors.New("the server is closed")
	}
	m.engine = engine.New(s.ctx, m.Model, engine.Options{
		Rows:   s.o.Rows,
		Memory: s.o.Memory,
		Store:  kvcache.NewStore(s.o.Keep),
		Queue:  s.o.Queue,
		Calls:  s.calls,
		Now:    s.now,
	})
	s.stats.models.WithLabelValues(m.name, m.precision, m.device, m.fingerprint()).Set(1)
	s.models = append(s.models, m)
	s.running.Go(m.engine.Run)
	return nil
}

// engines returns the engines of all models.
func (s *Server) engines() (list []*engine.Engine) {
	for _, m := range s.allModels() {
		list = append(list, m.engine)
	}
	return list
}

// backlog returns how much waits at all models.
func (s *Server) backlog() (requests int, rows int64) {
	for _, e := range s.engines() {
		calls, callRows := e.Backlog()
		requests += calls
		rows += callRows
	}
	return requests, rows
}

// loading reports whether models are still to be added.
func (s *Server) loading() bool { return len(s.allModels()) < max(s.o.Expect, 1) }

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
	s.mu.Lock() // nothing is added to running after it
	s.stop()
	s.mu.Unlock()
	s.running.Wait()
	s.calls.Wait()
}
