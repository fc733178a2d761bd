package model

import "sync"

// Turns lets several goroutines share a network that has one working memory. A network embeds it;
// whoever makes passes holds the lock from the first pass until nothing more is asked of the
// Marginals of the last. Wrappers of a network are Turners that return its Turns.
type Turns struct{ mu sync.Mutex }

// Turn implements Turner.
func (t *Turns) Turn() sync.Locker { return &t.mu }

// Turner is a Denoiser that several goroutines may share.
type Turner interface {
	Denoiser
	Turn() sync.Locker
}

// Turn returns the lock of a Denoiser's working memory. A Denoiser that is no Turner has none and
// is one goroutine's.
func Turn(d Denoiser) sync.Locker {
	if t, ok := d.(Turner); ok {
		return t.Turn()
	}
	return free{}
}

type free struct{}

func (free) Lock()   {}
func (free) Unlock() {}
