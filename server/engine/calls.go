package engine

import (
	"sync"

	"unmask/internal/lru"
)

// Calls are those of all engines of a server. Equal calls at the same time share one, as
// singleflight has them, and finished ones are kept for later equal calls. Methods may be called
// concurrently.
type Calls struct {
	stats Stats

	// answering counts the goroutines that make answers.
	answering sync.WaitGroup

	mu       sync.Mutex
	draining bool

	// inflight has the calls that are not done, by key.
	inflight map[string]*Call

	// finished has the calls that are done and were kept, by key.
	finished *lru.Cache[string, *Call]
}

// NewCalls returns no calls. About maxBytes of finished ones are kept.
func NewCalls(maxBytes int64, stats Stats) *Calls {
	return &Calls{
		stats:    stats,
		inflight: map[string]*Call{},
		finished: lru.New[string, *Call](maxBytes),
	}
}

// Begin returns the call to wait for: one with the same key that is done, which is a hit, or that
// runs, or else c, which it queues. The caller is counted as a watcher and must call Unwatch. The
// error is an *Error.
func (s *Calls) Begin(c *Call) (_ *Call, hit bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, false, shutdownError()
	}
	// A call that has failed may still be here, because others watch it. c takes its place.
	if old, ok := s.finished.Get(c.Key); ok && old.watch() {
		s.stats.AnswerReused()
		return old, true, nil
	}
	if old := s.inflight[c.Key]; old != nil && old.watch() {
		return old, false, nil
	}

	// It is watched before the engine knows of it, so that no call is ever without a watcher.
	c.watch()
	s.inflight[c.Key] = c
	if err := c.engine.admit(c); err != nil {
		delete(s.inflight, c.Key)
		return nil, false, err
	}
	return c, false, nil
}

// Unwatch counts one watcher less. A call without watchers is given up: nobody would read its
// answer.
func (s *Calls) Unwatch(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.watchers.Add(-1) > 0 {
		return
	}
	s.forgetInflight(c)
	if c.finish(nil, newError(Cancelled, "the request was cancelled")) {
		s.stats.CallCancelled("client")
		c.engine.wake()
	}
}

// answerCall makes the answer of a call whose members are all done. It runs in a goroutine, so the
// engine goes on with the passes of others.
func (s *Calls) answerCall(c *Call) {
	s.answering.Go(func() {
		a, err := c.makeAnswer()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forgetInflight(c)

		// Answer holds the whole request: a schema of a megabyte would stay as long as the call is
		// kept, and be counted by nobody.
		c.Answer = nil
		if c.finish(a, err) && err == nil && !c.growthRefused {
			s.finished.Put(c.Key, c, "", c.bytes())
		}
	})
}

// forgetInflight removes a call from those that run, unless a later call with its key has its
// place. The caller holds the lock.
func (s *Calls) forgetInflight(c *Call) {
	if s.inflight[c.Key] == c {
		delete(s.inflight, c.Key)
	}
}

// Lookup returns the finished call of a key, nil if it was not kept.
func (s *Calls) Lookup(key string) *Call {
	c, _ := s.finished.Get(key)
	return c
}

// Watchers returns how many clients wait for calls that are not done.
func (s *Calls) Watchers() (clients int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.inflight {
		clients += c.Watchers()
	}
	return clients
}

// Drain lets no further call begin.
func (s *Calls) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

// Draining reports whether Drain was called.
func (s *Calls) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// Wait returns when no answer is being made.
func (s *Calls) Wait() { s.answering.Wait() }
