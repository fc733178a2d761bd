package generate

import "unmask/samplers"

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
