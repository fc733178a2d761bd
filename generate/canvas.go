package generate

import (
	"fmt"
	"math"
	"slices"

	"unmask/param"
	"unmask/samplers"
)

// An answer begins on a canvas, the masks that its request lays out. Where everything on it is open
// and the answer has no end (Request.HasEnd), another canvas of masks is put behind it, on which
// the recipe takes its steps again, until there is an end or the sequence has Request.MaxLength
// positions. The new canvas is that of a task of its own, to which all before it is known, so that
// loops and samplers do not know about it. Steps go on counting: no random number is drawn twice.
//
// A rule that goes in blocks grows by a block instead. A samplers.Resizer finds its length itself,
// up to the same bound. The text of a language fits on its canvas unless letTextsGrow finds that it
// most probably does not; then it ends on a later one.

// maxLength returns the most positions that the sequence may have.
func (r *Request) maxLength() int { return max(r.Length, r.MaxLength) }

// checkGrowth returns an error for a MaxLength that a sequence cannot reach.
func (r *Request) checkGrowth(longest int, isFixed bool) error {
	switch {
	case r.MaxLength == 0:
		return nil
	case r.MaxLength < r.Length || r.MaxLength > longest:
		return refuse("max-tokens", param.OutOfRange, "the greatest length is %d, want %d to %d",
			r.MaxLength, r.Length, longest)
	case isFixed && r.MaxLength > r.Length:
		return refuse("max-tokens", param.Unsupported, "the greatest length is %d, want %d: this "+
			"model has no other", r.MaxLength, r.Length)
	}
	return nil
}

// canvas is what the first masks of an answer say about those that it grows by.
type canvas struct {
	// masks is their number, and steps that of the recipe's steps on them.
	masks int
	steps int

	// growth is the number of masks by which the answer grows.
	growth int
}

// newCanvas returns the canvas of a request with a number of masks.
func newCanvas(r *Request, masks int) canvas {
	c := canvas{masks: masks, steps: r.Steps, growth: masks}
	_, blockSize := r.blockShape(masks)
	if blockSize > 0 {
		c.growth = min(blockSize, masks)
	}
	return c
}

// stepsFor returns the recipe's steps for some masks of a canvas: its share of the first one's.
func (c canvas) stepsFor(r Recipe, masks int) int {
	perBlock := r.Reuse == Blocks || r.Reuse == Causal
	if perBlock || masks == c.masks || r.Steps == 0 {
		return c.steps
	}
	steps := (c.steps*masks + c.masks - 1) / c.masks
	if maxSteps, bounded := r.usefulSteps(masks); bounded {
		steps = min(steps, maxSteps)
	}
	blocks, _ := r.blockBounds(masks)
	return max(steps, blocks)
}

// mayGrow reports whether a member that is done gets another canvas.
func (m *member) mayGrow() bool {
	// There must be room, somebody who says whether the text has its end, and positions that were
	// filled. A sampler that finds the length itself has found it.
	length := len(m.Sequence.Tokens)
	if m.Err != nil || length >= m.MaxLength || m.HasEnd == nil || m.maskedLeft > 0 ||
		len(m.free) == 0 || m.findsLength {
		return false
	}
	if m.mayTextGrow() && m.shortestRest() > 0 { // its language wants more text
		return true
	}
	for _, p := range m.free {
		token := m.Tokens[p]
		if slices.Contains(m.EndTokens, token) || slices.Contains(m.network.spec.EndTokens, token) {
			return false
		}
	}
	return !m.HasEnd(m.Sequence.Tokens)
}

// nextMasks returns how many masks a member's next canvas has.
func (m *member) nextMasks() int {
	masks := max(m.canvas.growth, m.shortestRest())
	return min(masks, m.MaxLength-len(m.Sequence.Tokens))
}

// isGrowthAdmitted asks whoever runs the pool whether there is time for another canvas. Where a
// text of a language stopped within, that was asked before.
func (m *member) isGrowthAdmitted() bool {
	if m.AdmitGrowth == nil || m.maskedLeft == 0 && m.growthAsked && m.shortestRest() > 0 {
		return true
	}
	masks := m.nextMasks()
	return m.AdmitGrowth(masks, m.canvas.stepsFor(m.Recipe, masks))
}

// growCanvas puts another canvas behind the sequence of a member that is done, or before its tail
// (model.Spec.Tail). The member then is not done.
func (p *Pool) growCanvas(m *member) error {
	tail := p.spec.TailCount(m.Request.Known)
	end := len(m.Sequence.Tokens) - tail // of the answer
	masks := m.nextMasks()
	r := m.Request
	r.Known = slices.Concat(m.Sequence.Tokens[:end], slices.Repeat([]int32{m.mask}, masks),
		m.Sequence.Tokens[end:])
	r.Length = len(r.Known)
	r.Steps = m.canvas.stepsFor(r.Recipe, masks)
	if r.Language != nil { // which other members share, so it is copied
		longer := *r.Language
		longer.EndPosition = end + masks
		r.Language = &longer
	}
	t, err := p.newTask(r)
	if err != nil {
		return fmt.Errorf("generate: sequence %d: %d more positions: %w", m.Index, masks, err)
	}
	t.canvas = m.canvas

	condition := m.Condition // guidance hides the prompt alone, as on the first canvas
	m.task = t
	m.layout = t.initial
	m.Condition = condition
	m.stepsBefore = m.N

	start := t.initial.startTokens
	m.Tokens = append(m.Tokens[:0], start...)
	m.growthAsked = false
	m.restartGrammar(&p.sums)
	m.past = append(slices.Clone(m.past[:end]), make([]float64, len(start)-end)...)
	m.cached = m.cached[:0]
	m.Sequence.Tokens = m.Tokens[:t.Length:t.Length]
	m.Sequence.Steps = m.N + t.maxSteps
	m.maskedLeft = m.countMasked()
	m.needsStep = t.remasks
	m.loop = t.newLoop(m)
	if t.stateful != nil {
		m.samplerState = t.stateful.NewState(len(start))
	}
	m.reportCanvas(end, masks, tail)
	m.Done = false
	m.Finished = false
	if m.Edit != nil { // which may change what was settled when the canvas before was done
		m.Settled = 0
	}
	return nil
}

// reportCanvas adds to the step's report that masks stand at a position now. The first token of a
// tail, which was there, moves behind them: a change of the length can only replace a position.
func (m *member) reportCanvas(position, masks, tail int) {
	if tail == 0 {
		m.Resized = append(m.Resized, Resize{Position: position, Into: masks})
		return
	}
	m.Resized = append(m.Resized, Resize{Position: position, Into: masks + 1})
	moved := position + masks
	m.Opened = append(m.Opened, OpenedPosition{
		Position: moved,
		Token:    m.Tokens[moved],
		LogP:     math.NaN(),
	})
}

// findsLength reports whether a recipe's sampler changes the length itself.
func findsLength(r *Request, growsHoles bool) bool {
	isResizer := samplers.Is[samplers.Resizer](r.Sampler) && len(r.EndTokens) > 0
	return isResizer || samplers.Is[samplers.Grower](r.Sampler) && growsHoles
}
