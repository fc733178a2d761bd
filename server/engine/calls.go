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
	group sync.WaitGroup // calls that are being answered

	mu       sync.Mutex
	drained  bool
	inflight map[string]*Call // by key
	kept     *lru.Cache[string, *Call]
}

// NewCalls returns no calls. Of finished ones about max bytes are kept.
func NewCalls(max int64, stats Stats) *Calls {
	return &Calls{stats: stats, inflight: map[string]*Call{}, kept: lru.New[string, *Call](max)}
}

// Begin returns the call to wait for: one with the same key that runs or is done, which is a hit,
// else c, which it queues. The caller is counted as a watcher and must call Unwatch. The error is
// an *Error.
func (s *Calls) Begin(c *Call) (_ *Call, hit bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		return nil, false, shuttingDown()
	}
	if old, ok := s.kept.Get(c.Key); ok && old.watch() {
		s.stats.AnswerReused()
		return old, true, nil
	}
	if old := s.inflight[c.Key]; old != nil && old.watch() {
		return old, false, nil
	}
	c.watch()
	s.inflight[c.Key] = c
	if err := c.engine.admit(c); err != nil {
		delete(s.inflight, c.Key)
		return nil, false, err
	}
	return c, false, nil
}

// Unwatch counts one watcher less. A call without watchers is given up.
func (s *Calls) Unwatch(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.watchers.Add(-1) > 0 {
		return
	}
	if s.inflight[c.Key] == c {
		delete(s.inflight, c.Key)
	}
	if c.end(nil, refuse(Cancelled, "the request was cancelled")) {
		s.stats.CallCancelled("client")
		c.engine.wake()
	}
}

// finish makes the answer of a call whose members are all done, while its engine goes on.
func (s *Calls) finish(c *Call) {
	s.group.Go(func() {
		a, err := c.makeAnswer()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inflight[c.Key] == c {
			delete(s.inflight, c.Key)
		}
		if c.end(a, err) && err == nil {
			s.kept.Put(c.Key, c, "", c.size())
		}
	})
}

// Lookup returns the finished call of a key, nil if it was not kept.
func (s *Calls) Lookup(key string) *Call {
	c, _ := s.kept.Get(key)
	return c
}

// Watchers returns how many clients wait for calls that are not done.
func (s *Calls) Watchers() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.inflight {
		n += c.Watchers()
	}
	return n
}

// Drain lets no further call begin.
func (s *Calls) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = true
}

// Draining reports whether Drain was called.
func (s *Calls) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained
}

// Wait returns when no answer is being made.
func (s *Calls) Wait() { s.group.Wait() }
