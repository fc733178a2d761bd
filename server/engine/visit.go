package engine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// visit is a turn of work that is no call, such as a pass that scores a text.
type visit struct {
	owner      string
	since      time.Time // of an owner's visits, those since the earliest time go first
	begin, end chan struct{}
}

// Visit waits for a turn to use the model, and returns the function that ends it. A turn should be
// about one pass. Owners take turns for their visits and calls alike.
func (e *Engine) Visit(ctx context.Context, owner string, since time.Time) (end func(), err error) {
	v := &visit{owner: queueOf(owner, false), since: since, begin: make(chan struct{}),
		end: make(chan struct{})}
	end = sync.OnceFunc(func() { close(v.end) })
	e.mu.Lock()
	e.queue.join(v.owner, e.present(false))
	e.visits = append(e.visits, v)
	e.mu.Unlock()
	e.wake()
	select {
	case <-v.begin:
		return end, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	case <-e.ctx.Done():
		end()
		return nil, shuttingDown()
	}
}

// visited gives one visit its turn, if it is the turn of its owner, and waits for its end.
func (e *Engine) visited() bool {
	v := e.visitor()
	if v == nil {
		return false
	}
	began := e.o.Now()
	close(v.begin)
	<-v.end
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passed = e.o.Now()
	e.queue.rows[v.owner] += max(e.passed.Sub(began).Seconds()*e.rate, 1)
	return true
}

// visitor returns the visit whose turn it is, nil where it is that of a call.
func (e *Engine) visitor() (next *visit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	had := func(v *visit) float64 { return e.queue.rows[v.owner] }
	for _, v := range e.visits {
		if next == nil || had(v) < had(next) || had(v) == had(next) && v.since.Before(next.since) {
			next = v
		}
	}
	for _, c := range e.calls {
		if next != nil && !c.ended && !c.Batch && e.queue.rows[c.queue()] < had(next) {
			return nil
		}
	}
	e.visits = slices.DeleteFunc(e.visits, func(v *visit) bool { return v == next })
	return next
}

// present returns the owners that have work of a class. The caller holds the lock.
func (e *Engine) present(batch bool) (owners []string) {
	for _, c := range e.calls {
		if c.Batch == batch && !c.ended {
			owners = append(owners, c.queue())
		}
	}
	for _, v := range e.visits {
		if !batch {
			owners = append(owners, v.owner)
		}
	}
	return owners
}
