package model

import (
	"context"
	"sync"
)

// Shared lets several goroutines share a network with one working memory. A network embeds it.
// Whoever makes a pass holds the lock from then until it has finished with the Marginals. A wrapper
// of a network is a Locker that returns the network's lock.
type Shared struct{ mu sync.Mutex }

// Locker implements Locker.
func (s *Shared) Locker() sync.Locker { return &s.mu }

// Locker is a Denoiser that several goroutines may share.
type Locker interface {
	Denoiser
	Locker() sync.Locker
}

// LockOf returns the lock of a Denoiser's working memory. A Denoiser that is not a Locker must stay
// in one goroutine; its lock does nothing.
func LockOf(d Denoiser) sync.Locker {
	if t, ok := d.(Locker); ok {
		return t.Locker()
	}
	return free{}
}

// Turn waits until a model may be called once more, beside others who call it, and returns what is
// called after it; nil: it may at once.
type Turn func(context.Context) (done func(), err error)

// Acquire waits for the turn to call d and takes its lock, until done is called.
func (t Turn) Acquire(ctx context.Context, d Denoiser) (done func(), err error) {
	over := func() {}
	if t != nil {
		if over, err = t(ctx); err != nil {
			return nil, err
		}
	}
	lock := LockOf(d)
	lock.Lock()
	return func() { lock.Unlock(); over() }, nil
}

type free struct{}

func (free) Lock()   {}
func (free) Unlock() {}
