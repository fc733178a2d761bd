package model

import "sync"

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

type free struct{}

func (free) Lock()   {}
func (free) Unlock() {}
