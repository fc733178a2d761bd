package generate

import (
	"cmp"
	"fmt"
	"slices"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Causal reuse is for models whose final tokens go through causally (model.Feeder): their keys and
// values are computed once and stay exact. The sequence opens block after block, counted from its
// first mask. What a block is made of depends on the model:
//
//   - NextToken (Nemotron-Labs-Diffusion): a causal pass over the tokens that became final draws
//     the block's first token, as in left-to-right decoding; passes over the block, in which its
//     positions see each other, open the rest. With blocks of one token there is nothing else:
//     that is left-to-right decoding.
//   - MasksLast (WeDLM): each pass computes everything from the first token that was not final,
//     known tokens first. With a samplers.Windower the block is a window that begins at the first
//     mask.
//
// The first pass of a window is over the prompt alone, as in the original. Tokens that a causal
// pass of a NextToken model draws depend on their position and not on the number of the step, so
// that speculation gives the same text at any temperature.

// causalBlock returns the positions of a block, or of the sampler's window.
func (r Recipe) causalBlock(spec model.Spec) (block int, window bool) {
	if w, ok := samplers.As[samplers.Windower](r.Sampler); ok {
		return w.WindowSize(), true
	}
	if block = max(spec.Block, 1); block == 1 && spec.Causal == model.MasksLast {
		block = defaultWindow
	}
	return cmp.Or(r.BlockSize, block), false
}

// defaultWindow is the number of masks that WeDLM's own program appends.
const defaultWindow = 16

// beyond returns the number of masked positions that the loop keeps after the end of a sequence:
// drafts, windows and the last block of a NextToken model reach over it, and what opens there is
// dropped. It is below samplers.MaxDraft.
func (r Recipe) beyond(spec model.Spec, length int) int {
	if r.Reuse == Blocks && spec.Blocks == model.WholeBlocks && spec.Block <= samplers.MaxDraft {
		return min(-length&(spec.Block-1), spec.Length()-length)
	}
	if r.Reuse != Causal {
		return 0
	}
	n, window := r.causalBlock(spec)
	if s, ok := samplers.As[samplers.Speculator](r.Sampler); ok {
		_, n, _, _ = s.Drafts()
	} else if !window && spec.Causal != model.NextToken {
		return 0
	}
	return min(n-1, spec.Length()-length)
}

// causalLoop opens block after block.
type causalLoop struct {
	*member
	kind     model.Causal
	block    int // positions of a block or of a window
	window   bool
	origin   int // the first mask of the sequence
	from, to int // positions of the current block; to is 0 before the first
	masks    int // of the block when its passes began
	n        int // passes made over the block since then
}

// firstMask returns the first masked position, or the end of the sequence.
func (m *member) firstMask() int {
	for _, p := range m.free {
		if m.Tokens[p] == m.mask {
			return p
		}
	}
	return len(m.Tokens)
}

// recheck cuts cached before the first token that changed since.
func (m *member) recheck() {
	for i, t := range m.cached {
		if m.Tokens[i] != t {
			m.cached = m.cached[:i]
			return
		}
	}
}

// over returns a span in which the positions from..to-1 may open, and of which the network sees
// those before `seen`.
func (m *member) over(from, to, seen int) span {
	s := span{network: m.task.network, partial: true, causal: true, n: 1, of: 1, size: to - from,
		end: to, seen: seen}
	s.from, _ = slices.BinarySearch(m.free, from)
	s.to, _ = slices.BinarySearch(m.free, to)
	return s
}

// commitTo returns the span of a causal pass up to position at, which opens there.
func (m *member) commitTo(at int) span {
	s := m.over(at, at+1, at)
	s.fixed = true
	return s
}

func (c *causalLoop) next() span {
	c.recheck()
	first := c.firstMask()
	c.again = false
	switch {
	case c.kind == model.MasksLast && c.window:
		if len(c.cached) < c.origin { // the prompt, which opens nothing
			c.again = true
			s := c.over(c.origin, c.origin, c.origin)
			s.quiet = true
			return s
		}
		end := min(first+c.block, len(c.Tokens))
		return c.over(first, end, end)
	case first >= c.to || first < c.from:
		c.from, c.to, c.n, c.masks = first, min(first+c.block, len(c.Tokens)), 0, 0
		if c.kind == model.NextToken && first > 0 {
			return c.commitTo(first)
		}
	}
	s := c.over(c.from, c.to, c.to)
	if c.kind == model.NextToken {
		s.how = model.Fill
	}
	if c.n == 0 {
		for p := c.from; p < c.to; p++ {
			if c.Tokens[p] == c.mask {
				c.masks++
			}
		}
	}
	s.size, s.of = c.masks, max(1, min(c.Recipe.Steps, c.masks))
	s.n = min(c.n+1, s.of)
	return s
}

func (c *causalLoop) quota() int { return min(max(c.planned(), 1), len(c.step.masked)) }

// planned returns how many positions the schedule opens in step n of the span, all in the last.
func (m *member) planned() int {
	s := &m.step
	if s.n >= s.of {
		return len(s.masked)
	}
	open := func(n int) int { return samplers.OpenCount(m.Schedule, float64(n), s.of, s.size) }
	return open(s.n) - open(s.n-1)
}

// feed appends the rows behind those whose keys and values are kept.
func (m *member) feed(rows []int32, base int) []int32 {
	return m.appendRows(rows, base, len(m.cached), m.step.seen)
}

func (m *member) appendRows(rows []int32, base, from, to int) []int32 {
	for p := from; p < to; p++ {
		rows = append(rows, int32(base+p))
	}
	return rows
}

// kept records the tokens before the first mask: in a causal pass their keys and values became
// final.
func (c *causalLoop) kept() {
	c.step.work.Partial += c.step.fed
	if c.step.how == model.Commit {
		c.cached = append(c.cached[:0], c.Tokens[:c.firstMask()]...)
	}
}

// check returns an error for a choice that takes back what is final.
func (m *member) check() error {
	if o := &m.step.opening; len(o.Close) > 0 || len(o.Replace) > 0 {
		return fmt.Errorf("the sampler takes tokens back, want one that does not: their keys and " +
			"values stay")
	}
	if len(m.step.opening.Positions) == 0 && len(m.step.masked) > 0 {
		return fmt.Errorf("the sampler opens nothing")
	}
	return nil
}

func (c *causalLoop) advance() {
	if c.again = false; c.step.how == model.Fill || c.kind == model.MasksLast {
		c.n++
	}
}

// checkCausal returns an error for a recipe that cannot run causally.
func (r Recipe) checkCausal(d model.Denoiser) error {
	kind := d.Spec().Causal
	if _, ok := d.(model.Feeder); !ok || kind == model.NotCausal {
		return r.unless(false, "reuse", "another one: this model's positions see those after them",
			param.Unsupported)
	}
	next, speculates := kind == model.NextToken, samplers.Is[samplers.Speculator](r.Sampler)
	block, windowed := r.causalBlock(d.Spec())
	sampler := func(ok bool, want string) error {
		return r.unless(ok, "sampler", want+" with reuse causal", param.NoEffect)
	}
	err := sampler(!next || d.Spec().Block != 1 || !speculates && r.BlockSize == 1,
		"one for left-to-right decoding, with block-size 1, as the model was trained,")
	if err == nil && next && !speculates && block > samplers.MaxDraft {
		return &param.Error{Name: "block-size", Found: fmt.Sprint(block),
			Want: fmt.Sprintf("1 to %d with reuse causal", samplers.MaxDraft)}
	}
	return cmp.Or(err,
		r.unless(r.Cache == 0, "cache", "0 with reuse causal", param.NoEffect),
		r.unless(r.Guidance.Scale == 0, "guidance", "0 with reuse causal", param.NoEffect),
		sampler(!speculates || next, "one that does not draft: this model predicts no next token,"),
		sampler(!windowed || kind == model.MasksLast,
			"one without a window: this model does not feed masks last,"),
		r.unless(!speculates && !windowed || r.BlockSize == 0, "block-size",
			"0: the sampler has its own block", param.NoEffect),
		sampler(!samplers.Is[samplers.Blocker](r.Sampler), "one without blocks"),
		sampler(!samplers.Is[samplers.Clock](r.Sampler), "one without a clock"),
		sampler(!samplers.Is[samplers.Editor](r.Sampler), "one that does not edit"),
		sampler(!samplers.Is[samplers.Lookahead](r.Sampler), "one that does not look ahead"))
}
