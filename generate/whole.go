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
	open := samplers.OpenCount(w.Schedule, float64(s.n), s.of, s.size)
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

// block is a part of a sequence that a samplers.Blocker opens before the next one.
type block struct {
	to    int // index in layout.free after its last position
	steps int // steps made when it is done; without meaning if the sampler plans itself
}

// parts returns the number of blocks in which the sampler opens `free` positions in a row, and the
// size of each; 0: equal shares.
func (r Recipe) parts(free int) (n, size int) {
	n = 1
	if b, ok := samplers.As[samplers.Blocker](r.Sampler); ok {
		n, size = b.Blocks(free)
	}
	return max(1, min(n, free)), size
}

// blocks returns the number of the sampler's blocks, and the most steps that can each open one of
// `free` positions: equal shares for blocks of which the last may be shorter.
func (r Recipe) blocks(free int) (n, most int) {
	n, size := r.parts(free)
	if size == 0 {
		return n, free
	}
	return n, n * min(size, free)
}

// setBlocks sets the blocks of a sequence, and its steps if the sampler does not plan them. Blocks
// of a size are windows from the first free position on or, where a known position follows it, from
// the start of the sequence. Each has ceil(steps/windows) steps, but no more than it has positions
// if every step opens one.
func (t *task) setBlocks() {
	free := t.initial.free
	n, size := t.parts(len(free))
	if size == 0 || len(free) == 0 {
		for i := range n {
			t.blocks = append(t.blocks, block{(i + 1) * len(free) / n, (i + 1) * t.steps / n})
		}
		return
	}
	origin, end := free[0], free[len(free)-1]+1
	if end != origin+len(free) || end != len(t.initial.start) {
		origin, end = 0, len(t.initial.start)
	}
	windows := (end - origin + size - 1) / size
	each, steps, from := (t.steps+windows-1)/windows, 0, 0
	for w := range windows {
		to := from
		for to < len(free) && free[to] < origin+(w+1)*size {
			to++
		}
		if to == from {
			continue
		}
		if steps += each; !t.idles {
			steps += min(to-from, each) - each
		}
		t.blocks, from = append(t.blocks, block{to, steps}), to
	}
	if !t.adapts {
		t.steps = steps
	}
}
