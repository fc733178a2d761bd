// Package turns shares an amount of something, such as processors or memory, among owners. Those
// that wait for it take turns.
package turns

import (
	"context"
	"slices"
	"sync"
)

// maxOwners is the number of owners that are remembered. Then all are forgotten, so that a server's
// memory does not grow with its clients; for one round they have equal turns.
const maxOwners = 1 << 10

// Turns is an amount of which callers take parts and give them back.
type Turns struct {
	mu   sync.Mutex
	free int64

	// waiting are the callers without their part, in the order in which they came.
	waiting []*waiter

	// lastServed is, for each owner, the value of served when it was served last.
	lastServed map[string]uint64

	// served counts parts.
	served uint64
}

// waiter is a call of Take.
type waiter struct {
	owner string
	n     int64

	// granted is closed when the waiter has its part.
	granted chan struct{}
}

// New returns an amount n, all of it free.
func New(n int64) *Turns { return &Turns{free: n, lastServed: map[string]uint64{}} }

// Take blocks until it has a part n, at most the whole amount, and returns the function that gives
// the part back. Among waiting owners the one that was served the longest ago is next, so that an
// owner with many calls does not hold up one with a single call. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, owner string, n int64) (giveBack func(), err error) {
	w := &waiter{owner, n, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.serve()
	t.mu.Unlock()
	giveBack = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.free += n
		t.serve()
	}
	select {
	case <-w.granted:
		return giveBack, nil
	case <-ctx.Done():
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // it was granted at the same moment
		t.free += n
	}
	t.serve()
	return nil, ctx.Err()
}

// serve grants parts to those whose turn it is, as long as there is enough. If there is too little
// for the next one, nobody passes it: large parts would wait for ever. The caller holds the lock.
func (t *Turns) serve() {
	for len(t.waiting) > 0 {
		next := 0
		for i, w := range t.waiting {
			if t.lastServed[w.owner] < t.lastServed[t.waiting[next].owner] {
				next = i
			}
		}
		w := t.waiting[next]
		if w.n > t.free {
			return
		}
		t.served++
		t.lastServed[w.owner] = t.served
		t.free -= w.n
		t.waiting = slices.Delete(t.waiting, next, next+1)
		close(w.granted)
	}
	if len(t.lastServed) > maxOwners {
		clear(t.lastServed)
	}
}
