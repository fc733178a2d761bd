package generate

import (
	"slices"

	"unmask/guide"
	"unmask/model"
	"unmask/samplers"
)

// task is what a pool makes of a request. It never changes.
type task struct {
	Request
	mask    int32
	initial layout
	network *network
	// returns the loop of a member, perhaps in the memory of its last one
	newLoop func(*member) loop
	steps   int        // the most that a sequence takes
	blocks  []block    // of the sampler, if it has its own; otherwise one
	work    *blockwork // nil without Reuse Blocks
	ends    []int32    // tokens that end the sequence once everything before them is open
	near    []bool     // with a window, the kept distances behind a block
	last    bool       // and whether the last position is kept

	scale guide.Scale // nil without guidance

	// What the sampler can do.
	adapts    bool // it decides how many positions a step opens
	idles     bool // its schedule has steps that open nothing, which need no pass
	remasks   bool // it closes positions
	revises   bool // it closes positions or replaces tokens
	ahead     bool
	clock     samplers.Clock
	judge     samplers.Judge
	early     bool // an open end token ends the text at once
	pipelined samplers.Pipeliner
	runs      bool // it may ask for a check of a run
	stateful  samplers.Stateful
}

// layout is what a sequence has before its first step.
type layout struct {
	shape []int
	start []int32 // [length] tokens
	free  []int   // positions masked at the start, ascending
	// the request's, or what guidance needs in its place; Given are positions of start
	Condition *model.Condition
}

// newTask builds the task of a request that Check returned.
func (p *Pool) newTask(r Request) (*task, error) {
	size := r.BlockSize
	if r.Reuse == Causal {
		size = 0
	}
	of, err := p.network(size)
	if err != nil {
		return nil, err
	}
	spec := of.spec
	t := &task{Request: r, mask: spec.Mask, network: of,
		initial: newLayout(spec, r.StartTokens(spec), r.beyond(spec, r.Length))}
	t.initial.Condition = r.Condition
	if t.steps, err = r.MaxSteps(len(t.initial.free)); err != nil {
		return nil, err
	}
	if r.Reuse == Blocks {
		if t.work, err = p.newBlockwork(spec, r.Recipe, t.initial, r.EndTokens); err != nil {
			return nil, err
		}
	}
	t.adapts = samplers.Is[samplers.Planner](r.Sampler)
	t.remasks = samplers.Is[samplers.Remasker](r.Sampler)
	t.ahead = samplers.Is[samplers.Lookahead](r.Sampler)
	t.clock, _ = samplers.As[samplers.Clock](r.Sampler)
	t.stateful, _ = samplers.As[samplers.Stateful](r.Sampler)
	t.pipelined, _ = samplers.As[samplers.Pipeliner](r.Sampler)
	t.early = samplers.Is[samplers.EarlyEnder](r.Sampler)
	t.runs = samplers.Is[samplers.RunChecker](r.Sampler)
	t.judge, _ = samplers.As[samplers.Judge](r.Sampler)
	t.revises = t.remasks || t.judge != nil
	t.EndTokens = slices.Clone(r.EndTokens)
	t.choose(spec)
	if !t.revises {
		t.ends = t.EndTokens
	}
	return t, t.guide(spec)
}

// choose sets the kind of loop and the steps that it takes at most.
func (t *task) choose(spec model.Spec) {
	free := len(t.initial.free)
	grower, grows := samplers.As[samplers.Grower](t.Sampler)
	resizer, resizes := samplers.As[samplers.Resizer](t.Sampler)
	proposer, proposes := samplers.As[samplers.Proposer](t.Sampler)
	switch {
	case t.Reuse == Blocks:
		k := t.work
		t.newLoop = func(m *member) loop { return remake(m.loop, blockLoop{member: m, blockwork: k}) }
		t.revises = k.post >= 0
		if t.steps > 0 {
			t.steps = k.maxSteps(t.Length)
		}
	case t.Reuse == Causal:
		t.chooseCausal(spec)
	case resizes && len(t.EndTokens) > 0:
		t.newLoop = func(m *member) loop { return remake(m.loop, newLengthLoop(m, resizer.Start())) }
		t.steps = min(t.steps, 1) * (2*free + 128)
		t.revises = true
	case grows && spec.Growth != nil:
		l := newGrowLoop(spec, grower.Growth(), t.initial)
		t.newLoop = func(m *member) loop {
			own := l
			own.member = m
			return remake(m.loop, own)
		}
		if free > 0 {
			t.steps = 2*max(l.longest-t.initial.free[0], free) + 2*l.left
		}
	case t.Reuse == Finished:
		t.newLoop = func(m *member) loop {
			f := finishedLoop{wholeLoop: wholeLoop{member: m}}
			f.block, f.delay = t.pipelined.Pipeline()
			return remake(m.loop, f)
		}
		t.setBlocks()
	case proposes:
		t.newLoop = func(m *member) loop {
			return remake(m.loop, draftLoop{wholeLoop: wholeLoop{member: m}, most: proposer.Proposals()})
		}
		t.setBlocks()
		t.steps *= 2 // a block begins with a pass that opens nothing
	default:
		t.newLoop = func(m *member) loop { return remake(m.loop, wholeLoop{member: m}) }
		t.near, t.last = t.windowed()
		_, idles := t.Schedule.(samplers.Idler)
		t.idles = idles && !t.adapts
		t.setBlocks()
	}
}

// chooseCausal is choose with Reuse Causal.
func (t *task) chooseCausal(spec model.Spec) {
	free := len(t.initial.free)
	if speculator, ok := samplers.As[samplers.Speculator](t.Sampler); ok {
		var l specLoop
		l.from, l.block, l.theta, l.temperature = speculator.Drafts()
		l.window = l.from
		t.newLoop = func(m *member) loop {
			own := l
			own.member = m
			return remake(m.loop, own)
		}
		t.steps = min(t.steps, 1) * l.maxSteps(free)
		return
	}
	l := causalLoop{kind: spec.Causal, origin: slices.Index(t.initial.start, spec.Mask)}
	if l.block, l.window = t.causalBlock(spec); l.origin < 0 {
		l.origin = len(t.initial.start)
	}
	t.newLoop = func(m *member) loop {
		own := l
		own.member = m
		return remake(m.loop, own)
	}
	t.steps = min(t.steps, 1) * (1 + 2*free)
}

// newLayout returns the layout of a sequence, with some masked positions beyond its end.
func newLayout(spec model.Spec, tokens []int32, beyond int) layout {
	l := layout{shape: spec.Shape}
	if length := len(tokens); length != spec.Length() {
		l.shape = []int{length}
		if n := len(spec.Shape); n == 2 && length%spec.Shape[1] == 0 { // fewer rows
			l.shape = []int{length / spec.Shape[1], spec.Shape[1]}
		}
	}
	l.start = slices.Concat(tokens, slices.Repeat([]int32{spec.Mask}, beyond))
	l.free = maskedIn(l.start, spec.Mask)
	return l
}

// maskedIn returns the positions of tokens that are masked.
func maskedIn(tokens []int32, mask int32) (positions []int) {
	for p, t := range tokens {
		if t == mask {
			positions = append(positions, p)
		}
	}
	return positions
}

// guide sets the guidance scale, and the condition that it needs on an unconditional model.
func (t *task) guide(spec model.Spec) (err error) {
	if t.Guidance.Scale == 0 {
		return nil
	}
	if t.scale, err = guide.Schedule(t.Guidance.Schedule, t.Guidance.Scale); err != nil {
		return err
	}
	if !spec.IsConditional() && t.Condition == nil {
		c := &model.Condition{Class: model.NoClass}
		for p, token := range t.initial.start {
			if token != spec.Mask {
				c.KnownPositions = append(c.KnownPositions, int32(p))
			}
		}
		t.initial.Condition = c
	}
	return nil
}

// filtered reports whether the logits of the task's rows differ from the model's.
func (t *task) filtered() bool { return !t.Filter.IsNeutral() || t.Adjust != nil }

// caches reports whether the task keeps keys and values between passes.
func (t *task) caches() bool { return t.Cache > 0 || t.Reuse != NoReuse }
