package generate

import (
	"fmt"
	"slices"

	"unmask/samplers"
)

// wholeLoop computes the whole sequence in every step or, with Reuse, what is not taken from
// earlier steps. Any free position may open, or any in the current block of a samplers.Blocker.
type wholeLoop struct {
	*member
	fullAt    int // step of the last full pass; 0: none
	blockFrom int // block of the last pass
	// with a window, the positions of the step's pass and of the last full one
	sees, fullSees []int32
}

func (w *wholeLoop) next() span {
	n := w.N + 1
	i := slices.IndexFunc(w.free, func(p int) bool { return w.Tokens[p] == w.mask })
	at := slices.IndexFunc(w.blocks, func(b block) bool {
		if w.adapts { // the first block with a masked position
			return i < b.to
		}
		return n <= b.steps
	})
	var before block
	if at > 0 {
		before = w.blocks[at-1]
	}
	b := w.blocks[at]
	s := span{network: w.task.network, partial: w.Reuse != NoReuse && len(w.cached) > 0,
		n: n, of: w.steps, from: before.to, to: b.to, end: len(w.Tokens), seen: len(w.Tokens)}
	if w.Window > 0 && s.to > 0 {
		w.keep(w.free[s.to-1] + 1)
		s.kept = w.sees
	}
	if w.judge != nil && w.network.shadows() {
		for _, p := range w.free[s.from:s.to] {
			s.shadows = append(s.shadows, int32(p))
		}
	}
	s.size = s.to - s.from
	if !w.adapts {
		s.n, s.of = n-before.steps, b.steps-before.steps
	}
	return s
}

// all returns the span of a full pass after which any position may open.
func (m *member) all() span {
	n := len(m.Tokens)
	return span{network: m.task.network, n: m.N + 1, of: m.steps, size: len(m.free), to: len(m.free),
		end: n, seen: n}
}

func (w *wholeLoop) quota() int {
	s, masked := &w.step, len(w.step.masked)
	if s.n >= s.of {
		return masked
	}
	least := min(1, masked)
	if _, ok := w.Schedule.(samplers.Idler); ok {
		least = 0
	}
	open := samplers.Open(w.Schedule, float64(s.n), s.of, s.size)
	return max(least, min(open-(s.size-masked), masked))
}

// stale reports whether the step needs a full pass.
func (w *wholeLoop) stale() bool {
	switch {
	case w.fullAt == 0:
		return true
	case w.Reuse == Delayed || w.Reuse == BlockDelayed:
		return w.Refresh > 0 && w.N+1-w.fullAt >= w.Refresh
	}
	return w.step.from != w.blockFrom || !slices.Equal(w.sees, w.fullSees)
}

// feed appends all rows, or those that the kind of reuse always computes and every position whose
// token differs from the cache's.
func (w *wholeLoop) feed(rows []int32, base int) []int32 {
	full := w.stale()
	for p, t := range w.Tokens {
		if (full || w.cached[p] != t || w.feeds(p)) && w.step.sees(p) {
			rows = append(rows, int32(base+p))
		}
	}
	return rows
}

// feeds reports whether a position is in every partial pass.
func (w *wholeLoop) feeds(p int) bool {
	switch first, last := w.free[w.step.from], w.free[w.step.to-1]; w.Reuse {
	case Prefix:
		return p >= first
	case Dual:
		return p >= first && p <= last
	case BlockDelayed:
		return w.Tokens[p] == w.mask && (p <= last || w.step.from != w.blockFrom)
	}
	return w.Tokens[p] == w.mask
}

// worked counts the step's pass.
func (w *wholeLoop) worked() {
	if n := len(w.Tokens); w.step.fed >= n {
		w.step.work.Full++
		w.step.work.Partial += w.step.fed - n // shadows
	} else {
		w.step.work.Partial += w.step.fed
	}
}

func (w *wholeLoop) kept() {
	w.worked()
	if w.Reuse == NoReuse {
		return
	}
	if w.stale() {
		w.fullAt = w.N + 1
		w.fullSees = append(w.fullSees[:0], w.sees...)
	}
	w.blockFrom = w.step.from
	w.cached = append(w.cached[:0], w.Tokens...)
}

// check returns an error if positions stay masked after the last step.
func (w *wholeLoop) check() error {
	s, o := &w.step, &w.step.opening
	if left := len(s.masked) - len(o.Positions) + len(o.Close); s.n >= s.of && left > 0 {
		return fmt.Errorf("the sampler leaves %d positions masked in its last step", left)
	}
	return nil
}

func (w *wholeLoop) advance() {}
