package model

import "sync"

// Turns lets several goroutines share a network with one working memory. A network embeds it.
// Whoever makes a pass holds the lock from then until it has finished with the Marginals. A wrapper
// of a network is a Turner that returns the network's Turn.
type Turns struct{ mu sync.Mutex }

// Turn implements Turner.
func (t *Turns) Turn() sync.Locker { return &t.mu }

// Turner is a Denoiser that several goroutines may share.
type Turner interface {
	Denoiser
	Turn() sync.Locker
}

// Turn returns the lock of a Denoiser's working memory. A Denoiser that is not a Turner must stay
// in one goroutine; its lock does nothing.
func Turn(d Denoiser) sync.Locker {
	if t, ok := d.(Turner); ok {
		return t.Turn()
	}
	return free{}
}

type free struct{}

func (free) Lock()   {}
func (free) Unlock() {}
