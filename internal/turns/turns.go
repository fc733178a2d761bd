// Package turns shares an amount of something, such as processors or memory, among owners. Those
// that wait for it take turns.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Turns is an amount of which parts are taken and given back.
type Turns struct {
	mu      sync.Mutex
	free    int64
	waiting []*wait // in the order in which they came
	last    map[string]uint64
	served  uint64
}

type wait struct {
	owner string
	n     int64
	got   chan struct{} // closed when it has its part
}

// New returns an amount n.
func New(n int64) *Turns { return &Turns{free: n, last: map[string]uint64{}} }

// Take waits for a part n, at most the whole amount, and returns the function that gives it back.
// Of those that wait, it is the turn of the owner that was served the longest ago. The error is
// that of ctx.
func (t *Turns) Take(ctx context.Context, owner string, n int64) (back func(), err error) {
	w := &wait{owner, n, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.serve()
	t.mu.Unlock()
	back = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.free += n
		t.serve()
	}
	select {
	case <-w.got:
		return back, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.free += n
	}
	t.serve()
	return nil, ctx.Err()
}

// serve gives parts to those whose turn it is, as long as there is enough. The caller holds the
// lock.
func (t *Turns) serve() {
	for len(t.waiting) > 0 {
		at := 0
		for i, w := range t.waiting {
			if t.last[w.owner] < t.last[t.waiting[at].owner] {
				at = i
			}
		}
		w := t.waiting[at]
		if w.n > t.free {
			return
		}
		t.served++
		t.last[w.owner] = t.served
		t.free -= w.n
		t.waiting = slices.Delete(t.waiting, at, at+1)
		close(w.got)
	}
	if len(t.last) > 1<<10 {
		clear(t.last)
	}
}
