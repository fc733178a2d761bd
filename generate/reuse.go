package generate

import (
	"context"
	"fmt"

	"unmask/model"
	"unmask/param"
)

// Reuse is which keys and values a step takes from earlier steps. All are approximations.
// The first pass over a sequence is full; later ones feed some positions, and always those
// whose token changed since.
type Reuse uint8

// The ways to reuse.
const (
	NoReuse Reuse = iota // every step is a full pass

	// Prefix is full at a block's start, then the block and what follows (Wu et al. 2025,
	// Fast-dLLM).
	Prefix
	// Dual is full at a block's start, then the block alone (ibid., DualCache).
	Dual
	// Delayed feeds masked positions and those that just opened, and is full every Refresh steps
	// (Ma et al. 2025, dKV-Cache).
	Delayed
)

var reuses = []string{NoReuse: "none", Prefix: "prefix", Dual: "dual", Delayed: "dkv"}

// String returns the name that ParseReuse reads.
func (u Reuse) String() string {
	if int(u) >= len(reuses) {
		return fmt.Sprintf("reuse(%d)", uint8(u))
	}
	return reuses[u]
}

// ParseReuse reads none, prefix, dual or dkv.
func ParseReuse(name string) (Reuse, error) {
	for u, s := range reuses {
		if s == name {
			return Reuse(u), nil
		}
	}
	return NoReuse, fmt.Errorf("generate: %w", param.Unknown("reuse", name, reuses))
}

// defaultRefresh is the refresh interval of dKV-Cache-Decode's examples.
const defaultRefresh = 8

// reuse makes the step's pass over the positions that must be fed. Sequences keep their
// places in the batch until it ends, for the sake of their keys and values.
func (r *run) reuse(ctx context.Context) error {
	h, length := &r.head, r.o.Length
	first := len(r.pass.Tokens) == 0
	r.pass.Size, r.pass.Time, r.pass.Cache = len(r.slots), r.pass.Time[:0], r.cache
	r.owners, h.rows, r.pass.Read = r.owners[:0], h.rows[:0], r.pass.Read[:0]
	for i := range r.slots {
		s := &r.slots[i]
		s.row = i
		r.owners = append(r.owners, s)
		r.pass.Time = append(r.pass.Time, r.time(s))
		if first {
			r.pass.Tokens = append(r.pass.Tokens, s.seq.Tokens...)
		}
	}
	for _, s := range r.busy {
		seen := r.pass.Tokens[s.row*length : (s.row+1)*length]
		full := r.stale(s)
		fed := 0
		for p, t := range s.seq.Tokens {
			if full || seen[p] != t || r.feeds(s, p) {
				h.rows = append(h.rows, int32(s.row*length+p))
				fed++
			}
		}
		r.reads(s)
		copy(seen, s.seq.Tokens)
		if fed == length {
			s.work.Full++
		} else {
			s.work.Partial += fed
		}
	}
	var m model.Marginals
	var err error
	if first {
		m, err = r.d.Forward(ctx, &r.pass)
	} else {
		m, err = r.refiner.Refine(ctx, &r.pass, h.rows)
	}
	if err != nil {
		return err
	}
	r.use(m)
	return nil
}

// stale says whether a sequence needs a full pass, and notes what it is for.
func (r *run) stale(s *slot) bool {
	age := r.n - s.refreshed
	full := s.refreshed == 0 || s.from != s.refreshedFrom
	if r.o.Reuse == Delayed {
		full = s.refreshed == 0 || age >= r.o.Refresh
	}
	if full {
		s.refreshed, s.refreshedFrom = r.n, s.from
	}
	return full
}

// feeds says whether a position is part of every partial pass.
func (r *run) feeds(s *slot, p int) bool {
	switch first, last := r.free[s.from], r.free[s.to-1]; r.o.Reuse {
	case Prefix:
		return p >= first
	case Dual:
		return p >= first && p <= last
	}
	return s.seq.Tokens[p] == r.spec.Mask
}
