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

	// lastFullStep is the step of the last full pass; 0 means that there was none.
	lastFullStep int

	// blockFrom is the index in m.free at which the block of the last pass begins.
	blockFrom int

	// passVisible and fullPassVisible are the positions that the step's pass and the last full one
	// see, with a suffix window.
	passVisible     []int32
	fullPassVisible []int32
}

// nextSpan implements loop. All positions are computed; those of the sampler's current block may
// open.
func (w *wholeLoop) nextSpan() span {
	n := w.canvasSteps() + 1
	firstMasked := slices.IndexFunc(w.free, func(p int) bool { return w.Tokens[p] == w.mask })
	current := slices.IndexFunc(w.samplerBlocks, func(b samplerBlock) bool {
		if w.samplerPlans { // the first block with a masked position
			return firstMasked < b.end
		}
		return n <= b.endStep
	})
	var previous samplerBlock // ends at 0 before the first block
	if current > 0 {
		previous = w.samplerBlocks[current-1]
	}
	block := w.samplerBlocks[current]

	s := span{
		network:   w.task.network,
		partial:   w.Reuse != NoReuse && len(w.cached) > 0,
		step:      n,
		steps:     w.maxSteps,
		size:      block.end - previous.end,
		freeFrom:  previous.end,
		freeTo:    block.end,
		blockFrom: block.from,
		blockTo:   block.to,
		openLimit: len(w.Tokens),
		visible:   len(w.Tokens),
	}
	if !w.samplerPlans { // the schedule runs over the block
		s.step = n - previous.endStep
		s.steps = block.endStep - previous.endStep
	}
	if w.Window > 0 && s.freeTo > 0 {
		w.setVisible(w.free[s.freeTo-1] + 1)
		s.visiblePositions = w.passVisible
	}
	if w.judge != nil && w.network.hasShadows() {
		for _, p := range w.free[s.freeFrom:s.freeTo] {
			s.shadows = append(s.shadows, int32(p))
		}
	}
	return s
}

// wholeSpan returns the span of a full pass after which any position may open.
func (m *member) wholeSpan() span {
	n := len(m.Tokens)
	return span{
		network:   m.task.network,
		step:      m.canvasSteps() + 1,
		steps:     m.maxSteps,
		size:      len(m.free),
		freeTo:    len(m.free),
		openLimit: n,
		visible:   n,
	}
}

// quota returns what the schedule has open after the step, less what is open, but at least one
// position, so that no step is wasted where a schedule rounds to nothing.
func (w *wholeLoop) quota() int {
	s := &w.step
	masked := len(s.masked)
	if s.step >= s.steps {
		return masked
	}
	fewest := min(1, masked)
	if _, idles := w.Schedule.(samplers.Idler); idles { // steps without openings are its purpose
		fewest = 0
	}
	if f, ok := w.Schedule.(samplers.Follower); ok {
		return min(f.Share(masked, s.steps-s.step+1), masked)
	}
	planned := samplers.OpenCount(w.Schedule, float64(s.step), s.steps, s.size)
	alreadyOpen := s.size - masked
	return max(fewest, min(planned-alreadyOpen, masked))
}

// needsFullPass reports whether the kept keys and values are too old for the step.
func (w *wholeLoop) needsFullPass() bool {
	switch {
	case w.lastFullStep == 0:
		return true
	case w.Reuse == Delayed || w.Reuse == BlockDelayed:
		return w.Refresh > 0 && w.N+1-w.lastFullStep >= w.Refresh
	}
	return w.step.freeFrom != w.blockFrom || !slices.Equal(w.passVisible, w.fullPassVisible)
}

// appendPartialRows appends all rows, or those that the kind of reuse always computes and every
// position whose token differs from the cache's.
func (w *wholeLoop) appendPartialRows(rows []int32, base int) []int32 {
	full := w.needsFullPass()
	for p, t := range w.Tokens {
		if (full || w.cached[p] != t || w.isAlwaysComputed(p)) && w.step.sees(p) {
			rows = append(rows, int32(base+p))
		}
	}
	return rows
}

// isAlwaysComputed reports whether a position is in every partial pass.
func (w *wholeLoop) isAlwaysComputed(p int) bool {
	first := w.free[w.step.freeFrom]
	last := w.free[w.step.freeTo-1]
	switch w.Reuse {
	case Prefix:
		return p >= first
	case Dual:
		return p >= first && p <= last
	case BlockDelayed:
		return w.Tokens[p] == w.mask && (p <= last || w.step.freeFrom != w.blockFrom)
	}
	return w.Tokens[p] == w.mask
}

// countWork counts the step's pass. One that computes all positions is a full pass, and what it
// computes beyond them are shadows.
func (w *wholeLoop) countWork() {
	n := len(w.Tokens)
	if w.step.computedRows < n {
		w.step.work.Partial += w.step.computedRows
		return
	}
	w.step.work.Full++
	w.step.work.Partial += w.step.computedRows - n
}

func (w *wholeLoop) recordPass() {
	w.countWork()
	if w.Reuse == NoReuse {
		return
	}
	if w.needsFullPass() {
		w.lastFullStep = w.N + 1
		w.fullPassVisible = append(w.fullPassVisible[:0], w.passVisible...)
	}
	w.blockFrom = w.step.freeFrom
	w.cached = append(w.cached[:0], w.Tokens...)
}

// checkOpening returns an error if positions stay masked after the last step.
func (w *wholeLoop) checkOpening() error {
	s := &w.step
	left := len(s.masked) - len(s.opening.Positions) + len(s.opening.Close)
	if s.step >= s.steps && left > 0 {
		return fmt.Errorf("the sampler leaves %d positions masked in its last step", left)
	}
	return nil
}

func (w *wholeLoop) advance() {}

// samplerBlock is a part of a sequence that a samplers.Blocker opens before the next one.
type samplerBlock struct {
	// end is the index in layout.free after its last position.
	end int

	// endStep is the number of steps made when it is done. It has no meaning if the sampler plans
	// its steps itself.
	endStep int

	// from..to-1 are its positions, known ones among them; both are 0 if it is a share of the free
	// positions, wherever these lie.
	from int
	to   int
}

// blockShape returns the number of blocks in which the sampler opens a number of masked positions,
// and the size of each; 0 means equal shares. With Blocks the model's blocks count, not these.
func (r Recipe) blockShape(masked int) (n, size int) {
	n = 1
	if b, ok := samplers.As[samplers.Blocker](r.Sampler); ok && r.Reuse != Blocks {
		n, size = b.Blocks(masked)
	}
	return max(1, min(n, masked)), size
}

// blockBounds returns the number of the sampler's blocks, and the most steps that can each open one
// of a number of masked positions. All blocks of a size have as many steps, also the last, which
// may be shorter.
func (r Recipe) blockBounds(masked int) (blocks, maxSteps int) {
	n, size := r.blockShape(masked)
	if size == 0 {
		return n, masked
	}
	return n, n * min(size, masked)
}

// setSamplerBlocks sets the blocks of a sequence, and its steps if the sampler does not plan them.
// Blocks of a size are windows from the first free position on or, where a known position follows
// it, from the start of the sequence. Each has ceil(steps/windows) steps, but no more than it has
// positions if every step opens one.
func (t *task) setSamplerBlocks() {
	free := t.initial.free
	n, size := t.blockShape(len(free))
	if size == 0 || len(free) == 0 {
		for i := range n {
			t.samplerBlocks = append(t.samplerBlocks,
				samplerBlock{end: (i + 1) * len(free) / n, endStep: (i + 1) * t.maxSteps / n})
		}
		return
	}

	origin := free[0]
	end := free[len(free)-1] + 1
	length := len(t.initial.startTokens)
	if end != origin+len(free) || end != length { // something behind the first mask is known
		origin = 0
		end = length
	}
	windows := (end - origin + size - 1) / size
	stepsEach := (t.maxSteps + windows - 1) / windows
	steps := 0
	windowFree := 0 // index in free of the window's first position
	for w := range windows {
		nextFree := windowFree
		for nextFree < len(free) && free[nextFree] < origin+(w+1)*size {
			nextFree++
		}
		if nextFree == windowFree { // all of the window is known, so it takes no step
			continue
		}
		if t.scheduleIdles {
			steps += stepsEach
		} else {
			steps += min(nextFree-windowFree, stepsEach)
		}
		t.samplerBlocks = append(t.samplerBlocks, samplerBlock{
			end:     nextFree,
			endStep: steps,
			from:    origin + w*size,
			to:      min(origin+(w+1)*size, end),
		})
		windowFree = nextFree
	}
	if !t.samplerPlans {
		t.maxSteps = steps
	}
}
