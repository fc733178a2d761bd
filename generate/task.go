package generate

import (
	"cmp"
	"slices"

	"unmask/guide"
	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// task is what a pool makes of a request: the kind of loop, and what the loop and the pool ask of
// the recipe in every step. It never changes, so members may share it.
type task struct {
	Request

	// mask is the id of a masked position.
	mask int32

	// initial is the layout before the first step.
	initial layout

	network *network

	// newLoop returns the loop of a member, perhaps in the memory of its last one.
	newLoop func(*member) loop

	// maxSteps is the most steps that a sequence takes on its canvas.
	maxSteps int

	// canvas is the first one of the sequence; findsLength means that it does not grow by more.
	canvas      canvas
	findsLength bool

	// samplerBlocks are the blocks of a samplers.Blocker; otherwise one block has all positions.
	samplerBlocks []samplerBlock

	// blockPlan is nil without Reuse Blocks.
	blockPlan *blockPlan

	// fillingEnds are tokens that end the sequence once everything before them is settled. There are
	// none if the sampler changes the sequence's length.
	fillingEnds []int32

	// windowDistances, [Window], says which distances behind a block its passes see, and
	// windowHasLast whether they see the last position; with a suffix window only.
	windowDistances []bool
	windowHasLast   bool

	// guidance is nil without guidance.
	guidance guide.Scale

	// What the sampler and its schedule can do.

	samplerPlans  bool // the sampler decides how many positions a step opens
	scheduleIdles bool // the schedule has steps that open nothing, which need no pass
	remasks       bool // the sampler closes positions
	revises       bool // it closes positions or replaces tokens
	resizes       bool // it changes the length, and reads open positions for that
	cutsText      bool // what it cuts off the end may be text
	looksAhead    bool // it asks for passes over candidates
	endsEarly     bool // an open end token ends the text at once
	checksRuns    bool // it may ask for a check of a run
	clock         samplers.Clock
	judge         samplers.Judge
	pipelined     samplers.Pipeliner
	stateful      samplers.Stateful
}

// layout is what a sequence has before its first step.
type layout struct {
	// shape is [length], or [rows, columns] of an image.
	shape []int

	// startTokens, [length], are the tokens before the first step.
	startTokens []int32

	// free are the positions that are masked at the start, ascending: those that the loop fills.
	free []int

	// Condition is the request's, or what guidance needs in its place. Its KnownPositions are
	// positions of startTokens.
	Condition *model.Condition
}

// newTask builds the task of a request that Check returned.
func (p *Pool) newTask(r Request) (*task, error) {
	blockSize := r.BlockSize
	if r.Reuse == Causal {
		blockSize = 0 // the loop's blocks, not the network's
	}
	network, err := p.networkFor(blockSize)
	if err != nil {
		return nil, err
	}
	spec := network.spec
	t := &task{Request: r, mask: spec.Mask, network: network}
	t.initial = newLayout(spec, r.StartTokens(spec), r.extraPositions(spec, r.Length))
	t.initial.Condition = r.Condition
	if t.maxSteps, err = r.MaxSteps(len(t.initial.free)); err != nil {
		return nil, err
	}
	t.canvas = newCanvas(&r, len(t.initial.free))
	t.findsLength = findsLength(&r, spec.Growth != nil)
	if r.Reuse == Blocks {
		t.blockPlan, err = p.newBlockPlan(spec, r.Recipe, t.initial, r.EndTokens)
		if err != nil {
			return nil, err
		}
	}

	t.samplerPlans = samplers.Is[samplers.Planner](r.Sampler)
	t.remasks = samplers.Is[samplers.Remasker](r.Sampler)
	t.looksAhead = samplers.Is[samplers.Lookahead](r.Sampler)
	t.endsEarly = r.EndsWhereOpen || samplers.Is[samplers.EarlyEnder](r.Sampler)
	t.checksRuns = samplers.Is[samplers.RunChecker](r.Sampler)
	t.clock, _ = samplers.As[samplers.Clock](r.Sampler)
	t.stateful, _ = samplers.As[samplers.Stateful](r.Sampler)
	t.pipelined, _ = samplers.As[samplers.Pipeliner](r.Sampler)
	t.judge, _ = samplers.As[samplers.Judge](r.Sampler)
	t.revises = t.remasks || t.judge != nil

	t.EndTokens = slices.Clone(r.EndTokens)
	t.chooseLoop(spec)
	if !t.resizes {
		t.fillingEnds = t.EndTokens
	}
	return t, t.setGuidance(spec)
}

// chooseLoop sets the kind of loop and the steps that it takes at most.
func (t *task) chooseLoop(spec model.Spec) {
	grower, grows := samplers.As[samplers.Grower](t.Sampler)
	resizer, resizes := samplers.As[samplers.Resizer](t.Sampler)
	proposer, proposes := samplers.As[samplers.Proposer](t.Sampler)
	switch {
	case t.Reuse == Blocks:
		t.chooseBlockLoop()
	case t.Reuse == Causal:
		t.chooseCausalLoop(spec)
	case resizes && len(t.EndTokens) > 0:
		t.chooseLengthLoop(resizer)
	case grows && spec.Growth != nil:
		t.chooseGrowLoop(spec, grower)
	case t.Reuse == Finished:
		t.newLoop = func(m *member) loop {
			l := finishedLoop{wholeLoop: wholeLoop{member: m}}
			l.blockSize, l.delay = t.pipelined.Pipeline()
			return reuseLoop(m.loop, l)
		}
		t.setSamplerBlocks()
	case proposes:
		t.newLoop = func(m *member) loop {
			l := draftLoop{wholeLoop: wholeLoop{member: m}, draftsPerPass: proposer.Proposals()}
			return reuseLoop(m.loop, l)
		}
		t.setSamplerBlocks()
		t.maxSteps *= 2 // a block begins with a pass that opens nothing
	default:
		t.newLoop = func(m *member) loop { return reuseLoop(m.loop, wholeLoop{member: m}) }
		t.windowDistances, t.windowHasLast = t.keptDistances()
		_, idles := t.Schedule.(samplers.Idler)
		t.scheduleIdles = idles && !t.samplerPlans
		t.setSamplerBlocks()
	}
}

// chooseBlockLoop is chooseLoop with Reuse Blocks.
func (t *task) chooseBlockLoop() {
	plan := t.blockPlan
	t.newLoop = func(m *member) loop {
		return reuseLoop(m.loop, blockLoop{member: m, blockPlan: plan})
	}
	t.revises = plan.maxEdits >= 0
	if t.maxSteps > 0 {
		t.maxSteps = plan.stepBound(t.Length)
	}
}

// chooseLengthLoop is chooseLoop for a text that finds its length.
func (t *task) chooseLengthLoop(resizer samplers.Resizer) {
	t.newLoop = func(m *member) loop {
		return reuseLoop(m.loop, newLengthLoop(m, resizer.Start()))
	}
	t.resizes = true
	cutter, ok := samplers.As[samplers.TextCutter](t.Sampler)
	t.cutsText = ok && cutter.CutsText()
	if t.maxSteps > 0 {
		// The bound ends a text that never stops changing its length.
		maxFree := len(t.initial.free) + t.maxLength() - t.Length
		t.maxSteps = 2*maxFree + 128
	}
}

// chooseGrowLoop is chooseLoop for holes that grow.
func (t *task) chooseGrowLoop(spec model.Spec, grower samplers.Grower) {
	start := newGrowLoop(spec, grower.Growth(), t.initial)
	t.newLoop = func(m *member) loop {
		l := start
		l.member = m
		return reuseLoop(m.loop, l)
	}
	if free := t.initial.free; len(free) > 0 {
		t.maxSteps = 2*max(start.maxLength-free[0], len(free)) + 2*start.expansionsLeft
	}
}

// chooseCausalLoop is chooseLoop with Reuse Causal.
func (t *task) chooseCausalLoop(spec model.Spec) {
	free := len(t.initial.free)
	if speculator, ok := samplers.As[samplers.Speculator](t.Sampler); ok {
		var start specLoop
		start.minDraft, start.maxDraft, start.threshold, start.temperature = speculator.Drafts()
		start.nextSize = start.minDraft
		t.newLoop = func(m *member) loop {
			l := start
			l.member = m
			return reuseLoop(m.loop, l)
		}
		if t.maxSteps > 0 {
			t.maxSteps = start.stepBound(free)
		}
		return
	}

	start := causalLoop{kind: spec.Causal}
	start.block, start.isWindow = t.causalBlock(spec)
	start.origin = slices.Index(t.initial.startTokens, spec.Mask)
	if start.origin < 0 {
		start.origin = len(t.initial.startTokens)
	}
	t.newLoop = func(m *member) loop {
		l := start
		l.member = m
		return reuseLoop(m.loop, l)
	}
	if t.maxSteps > 0 {
		t.maxSteps = 1 + 2*free
	}
}

// newLayout returns the layout of a sequence, with a number of masked positions beyond its end.
func newLayout(spec model.Spec, tokens []int32, beyond int) layout {
	l := layout{shape: spec.Shape}
	if length := len(tokens); length != spec.Length() {
		l.shape = []int{length}
		if len(spec.Shape) == 2 && length%spec.Shape[1] == 0 { // an image of fewer rows
			l.shape = []int{length / spec.Shape[1], spec.Shape[1]}
		}
	}
	l.startTokens = slices.Concat(tokens, slices.Repeat([]int32{spec.Mask}, beyond))
	l.free = maskedPositions(l.startTokens, spec.Mask)
	return l
}

// maskedPositions returns the positions of tokens that are masked, ascending.
func maskedPositions(tokens []int32, mask int32) (positions []int) {
	for p, t := range tokens {
		if t == mask {
			positions = append(positions, p)
		}
	}
	return positions
}

// setGuidance sets the guidance scale, and the condition that it needs on an unconditional model:
// what is known from the start.
func (t *task) setGuidance(spec model.Spec) (err error) {
	if t.Guidance.Scale == 0 {
		return nil
	}
	t.guidance, err = guide.Schedule(t.Guidance.Schedule, t.Guidance.Scale)
	if err != nil {
		return err
	}
	if spec.IsConditional() || t.Condition != nil {
		return nil
	}
	c := &model.Condition{Class: model.NoClass}
	for p, token := range t.initial.startTokens {
		if token != spec.Mask {
			c.KnownPositions = append(c.KnownPositions, int32(p))
		}
	}
	t.initial.Condition = c
	return nil
}

// passCondition returns the condition of the member's next pass: the task's or, with a share of
// guidance, one whose KnownPositions are drawn for this step, without replacement, among those of
// known tokens that are content. It is the same in all passes of a step.
func (m *member) passCondition(spec *model.Spec) *model.Condition {
	if m.Guidance.Share == 0 {
		return m.Condition
	}
	stream := m.randomStream()
	noise := map[int32]float64{}
	var context []int32
	for p, token := range m.Tokens {
		if token != m.mask && !spec.IsFiller(token) {
			context = append(context, int32(p))
			noise[int32(p)] = stream.Uniform(p, philox.Context)
		}
	}
	count := int(m.Guidance.Share * float64(len(context)))
	slices.SortFunc(context, func(a, b int32) int { return cmp.Compare(noise[a], noise[b]) })
	c := *m.Condition
	c.KnownPositions = context[:count]
	slices.Sort(c.KnownPositions)
	return &c
}

// hasFilter reports whether the request changes the logits of its rows.
func (t *task) hasFilter() bool { return !t.Filter.IsNeutral() || t.Adjust != nil }

// usesCache reports whether the task keeps keys and values between passes.
func (t *task) usesCache() bool { return t.Cache > 0 || t.Reuse != NoReuse }
