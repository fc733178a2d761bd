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
	if l, ok := d.(Locker); ok {
		return l.Locker()
	}
	return noLock{}
}

// Turn blocks until the caller may run one pass and returns the function that ends its turn, so
// that long work shares a model fairly with others. A nil Turn never blocks.
type Turn func(context.Context) (done func(), err error)

// Acquire waits for the turn to call d and takes d's lock. Both end when release is called.
//
// The turn comes first: whoever waits for one must not hold the lock meanwhile, or the owner of the
// turn could never make its pass.
func (t Turn) Acquire(ctx context.Context, d Denoiser) (release func(), err error) {
	endTurn := func() {}
	if t != nil {
		endTurn, err = t(ctx)
		if err != nil {
			return nil, err
		}
	}
	lock := LockOf(d)
	lock.Lock()
	return func() {
		lock.Unlock()
		endTurn()
	}, nil
}

// noLock is the lock of a Denoiser that stays in one goroutine.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}
