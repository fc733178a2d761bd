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
func (r Recipe) causalBlock(spec model.Spec) (size int, isWindow bool) {
	if w, ok := samplers.As[samplers.Windower](r.Sampler); ok {
		return w.WindowSize(), true
	}
	size = max(spec.Block, 1)
	if size == 1 && spec.Causal == model.MasksLast {
		size = defaultWindow
	}
	return cmp.Or(r.BlockSize, size), false
}

// defaultWindow is the number of masks that WeDLM's own program appends.
const defaultWindow = 16

// extraPositions returns the number of masked positions that the loop keeps after the end of a
// sequence: drafts, windows and the last block of a NextToken model reach over it, and what opens
// there is dropped. It is below samplers.MaxDraft.
func (r Recipe) extraPositions(spec model.Spec, length int) int {
	room := spec.Length() - length
	if r.Reuse == Blocks && spec.Blocks == model.WholeBlocks && spec.Block <= samplers.MaxDraft {
		return min(-length&(spec.Block-1), room) // the rest of the last block
	}
	if r.Reuse != Causal {
		return 0
	}
	size, isWindow := r.causalBlock(spec)
	if s, ok := samplers.As[samplers.Speculator](r.Sampler); ok {
		_, size, _, _ = s.Drafts()
	} else if !isWindow && spec.Causal != model.NextToken {
		return 0
	}
	return min(size-1, room)
}

// causalLoop opens block after block.
type causalLoop struct {
	*member
	kind model.Causal

	// block is the number of positions of a block or, if isWindow, of a window that begins at the
	// first mask.
	block    int
	isWindow bool

	// origin is the first mask of the sequence before its first step.
	origin int

	// The current block has the positions from..to-1; to is 0 before the first block.
	from int
	to   int

	// startMasks is the number of masks of the block when its passes began, and passesMade the
	// number of passes since then.
	startMasks int
	passesMade int
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

// dropStaleCached cuts cached before the first token that was changed since its keys and values
// were computed. In a causal network everything behind it has seen that token.
func (m *member) dropStaleCached() {
	for i, t := range m.cached {
		if m.Tokens[i] != t {
			m.cached = m.cached[:i]
			return
		}
	}
}

// spanOver returns the span of a causal pass in which the positions from..to-1 may open, and in
// which the network sees the first `visible` positions.
func (m *member) spanOver(from, to, visible int) span {
	s := span{
		network:   m.task.network,
		partial:   true,
		causal:    true,
		step:      1,
		steps:     1,
		size:      to - from,
		openLimit: to,
		visible:   visible,
	}
	s.freeFrom, _ = slices.BinarySearch(m.free, from)
	s.freeTo, _ = slices.BinarySearch(m.free, to)
	return s
}

// commitSpan returns the span of a causal pass over what is before a position, which opens there.
func (m *member) commitSpan(position int) span {
	s := m.spanOver(position, position+1, position)
	s.drawsByPosition = true
	return s
}

// nextSpan implements loop. The block at hand is filled until none of its positions is masked. A
// model that predicts the next token then reads it once more, causally, before the next block
// begins.
func (c *causalLoop) nextSpan() span {
	c.dropStaleCached()
	first := c.firstMask()
	c.needsStep = false
	if c.kind == model.MasksLast && c.isWindow {
		return c.windowSpan(first)
	}

	if first >= c.to || first < c.from { // the next block begins
		c.from = first
		c.to = min(first+c.block, len(c.Tokens))
		c.passesMade = 0
		c.startMasks = 0
		if c.kind == model.NextToken && first > 0 {
			return c.commitSpan(first)
		}
	}
	if c.passesMade == 0 {
		for _, t := range c.Tokens[c.from:c.to] {
			if t == c.mask {
				c.startMasks++
			}
		}
	}
	s := c.spanOver(c.from, c.to, c.to)
	if c.kind == model.NextToken {
		s.feeding = model.Fill
	}
	s.size = c.startMasks
	s.steps = max(1, min(c.Recipe.Steps, c.startMasks))
	s.step = min(c.passesMade+1, s.steps)
	return s
}

// windowSpan returns the span of a window that begins at the first mask. Before the first window
// there is a pass over the prompt alone, which opens nothing.
func (c *causalLoop) windowSpan(first int) span {
	if len(c.cached) < c.origin {
		c.needsStep = true
		s := c.spanOver(c.origin, c.origin, c.origin)
		s.skipsSampler = true
		return s
	}
	end := min(first+c.block, len(c.Tokens))
	return c.spanOver(first, end, end)
}

func (c *causalLoop) quota() int { return min(max(c.scheduledQuota(), 1), len(c.step.masked)) }

// scheduledQuota returns how many positions the schedule opens in the span's step. The last step
// opens all that are left.
func (m *member) scheduledQuota() int {
	s := &m.step
	if s.step >= s.steps {
		return len(s.masked)
	}
	openAfter := samplers.OpenCount(m.Schedule, float64(s.step), s.steps, s.size)
	openBefore := samplers.OpenCount(m.Schedule, float64(s.step-1), s.steps, s.size)
	return openAfter - openBefore
}

// appendPartialRows appends the rows behind those whose keys and values are kept.
func (m *member) appendPartialRows(rows []int32, base int) []int32 {
	return m.appendRowRange(rows, base, len(m.cached), m.step.visible)
}

// appendRowRange appends the rows of the positions from..to-1. Position p is row base+p.
func (m *member) appendRowRange(rows []int32, base, from, to int) []int32 {
	for p := from; p < to; p++ {
		rows = append(rows, int32(base+p))
	}
	return rows
}

// recordPass records the tokens before the first mask: in a causal pass their keys and values
// became final.
func (c *causalLoop) recordPass() {
	c.step.work.Partial += c.step.computedRows
	if c.step.feeding == model.Commit {
		c.cached = append(c.cached[:0], c.Tokens[:c.firstMask()]...)
	}
}

// checkOpening returns an error for a choice that takes back what is final.
func (m *member) checkOpening() error {
	o := &m.step.opening
	if len(o.Close) > 0 || len(o.Replace) > 0 {
		return fmt.Errorf("the sampler takes tokens back, want one that does not: their keys and " +
			"values stay")
	}
	if len(o.Positions) == 0 && len(m.step.masked) > 0 {
		return fmt.Errorf("the sampler opens nothing")
	}
	return nil
}

// advance implements loop. A pass that only reads a finished block is no step of the next one.
func (c *causalLoop) advance() {
	c.needsStep = false
	if c.step.feeding == model.Fill || c.kind == model.MasksLast {
		c.passesMade++
	}
}

// checkCausal returns why a recipe cannot run with Reuse Causal on this model, or nil.
//
// With causal reuse a position's keys and values never change once they are computed, so every
// option that looks back at earlier positions, or computes them again, has nothing to act on.
func (r Recipe) checkCausal(d model.Denoiser) error {
	spec := d.Spec()
	if _, ok := d.(model.Feeder); !ok || spec.Causal == model.NotCausal {
		return r.refuseParam("reuse", "another one: this model's positions see those after them",
			param.Unsupported)
	}
	if err := r.checkCausalBlock(spec); err != nil {
		return err
	}
	if r.Cache != 0 {
		return r.refuseParam("cache", "0 with reuse causal", param.NoEffect)
	}
	if r.Guidance.Scale != 0 {
		return r.refuseParam("guidance", "0 with reuse causal", param.NoEffect)
	}
	return r.checkCausalSampler(spec)
}

// checkCausalBlock returns an error for a block that the model was not trained with, or that is too
// long to reach beyond the end of a sequence.
func (r Recipe) checkCausalBlock(spec model.Spec) error {
	if spec.Causal != model.NextToken {
		return nil
	}
	speculates := samplers.Is[samplers.Speculator](r.Sampler)
	if spec.Block == 1 && (speculates || r.BlockSize != 1) {
		return r.refuseCausalSampler("one for left-to-right decoding, with block-size 1, as the model " +
			"was trained,")
	}
	if size, _ := r.causalBlock(spec); !speculates && size > samplers.MaxDraft {
		return &param.Error{Name: "block-size", Found: fmt.Sprint(size),
			Want: fmt.Sprintf("1 to %d with reuse causal", samplers.MaxDraft)}
	}
	return nil
}

// checkCausalSampler returns an error for a sampler that cannot run with Reuse Causal.
func (r Recipe) checkCausalSampler(spec model.Spec) error {
	speculates := samplers.Is[samplers.Speculator](r.Sampler)
	windowed := samplers.Is[samplers.Windower](r.Sampler)
	switch {
	case speculates && spec.Causal != model.NextToken:
		return r.refuseCausalSampler("one that does not draft: this model predicts no next token,")
	case windowed && spec.Causal != model.MasksLast:
		return r.refuseCausalSampler("one without a window: this model does not feed masks last,")
	case (speculates || windowed) && r.BlockSize != 0:
		return r.refuseParam("block-size", "0: the sampler has its own block", param.NoEffect)
	case samplers.Is[samplers.Blocker](r.Sampler):
		return r.refuseCausalSampler("one without blocks")
	case samplers.Is[samplers.Clock](r.Sampler):
		return r.refuseCausalSampler("one without a clock")
	case samplers.Is[samplers.Editor](r.Sampler):
		return r.refuseCausalSampler("one that does not edit")
	case samplers.Is[samplers.Lookahead](r.Sampler):
		return r.refuseCausalSampler("one that does not look ahead")
	}
	return nil
}

// refuseCausalSampler refuses the recipe's sampler.
func (r Recipe) refuseCausalSampler(want string) error {
	return r.refuseParam("sampler", want+" with reuse causal", param.NoEffect)
}
