package generate

import (
	"cmp"
	"fmt"
	"slices"

	"unmask/guide"
	"unmask/kvcache"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Block diffusion is for models whose positions see their own block and those before it
// (model.Spec.Block). Keys and values of a finished block never change, so a pass computes the
// current block and, of those before it, only what changed since the last pass. This is exact
// unless the sampler lets passes compute a part of the block alone (samplers.Partitioner). A
// sequence ends with the block in which a token of Spec.EndTokens opens.
//
// With model.AnswerBlocks a prompt may end within one of the kernels' blocks, which begin at
// multiples of their size. Such a sequence uses the network without blocks: a pass is over one
// block and sees nothing behind it, and each block before that has a pass of its own.
//
// The original programs make an extra pass over a prompt and over each finished block; here that
// work is part of the next block's first pass.

// blockPlan holds what a task with Reuse Blocks needs.
type blockPlan struct {
	// layoutKind says how the model's blocks lie in a sequence.
	layoutKind model.Blocks

	// blockSize is the number of positions of a block.
	blockSize int

	// offset is the number of positions that the first block lacks, with model.AnswerBlocks.
	offset int

	// wide is the network in which a position sees all others, for passes over one block whose start
	// is no multiple of its size; nil if offset is 0.
	wide *network

	// blockSteps is the number of steps of a block.
	blockSteps int

	// maxEdits is, for samplers that edit, the number of steps of a block after its last mask; -1 if
	// the sampler replaces nothing.
	maxEdits int

	// partitioner is nil if the sampler opens positions of the whole block.
	partitioner samplers.Partitioner

	// blockEnds are tokens that end the sequence with their block.
	blockEnds []int32
}

// newBlockPlan returns the plan of a recipe with Reuse Blocks.
func (p *Pool) newBlockPlan(spec model.Spec, r Recipe, l layout, ends []int32) (*blockPlan, error) {
	k := &blockPlan{
		layoutKind: spec.Blocks,
		blockSize:  spec.Block,
		blockSteps: min(r.Steps, spec.Block),
		maxEdits:   -1,
		blockEnds:  append(slices.Clone(spec.EndTokens), ends...),
	}
	if samplers.Is[samplers.Planner](r.Sampler) {
		k.blockSteps = k.blockSize
	}
	if s, ok := r.Sampler.(samplers.SemiAR); ok { // each part takes a step at least
		k.blockSteps = max(k.blockSteps, k.blockSize/samplers.WithDefaults(s).Block)
	}
	if e, ok := samplers.As[samplers.Editor](r.Sampler); ok {
		k.maxEdits = e.Edits()
	}
	k.partitioner, _ = r.Sampler.(samplers.Partitioner)
	if spec.Blocks != model.AnswerBlocks || len(l.free) == 0 || l.free[0]%k.blockSize == 0 {
		return k, nil
	}

	// The answer begins within one of the kernels' blocks, which would hide the end of its own block
	// from its first positions.
	var err error
	k.offset = k.blockSize - l.free[0]%k.blockSize
	k.wide, err = p.networkFor(noBlocks)
	return k, err
}

// blockStart returns the first position of the block of p. It is below 0 if the block is the first
// and short.
func (k *blockPlan) blockStart(p int) int { return (p+k.offset)/k.blockSize*k.blockSize - k.offset }

// stepBound returns the most steps that a sequence can take.
func (k *blockPlan) stepBound(length int) int {
	stepsEach := k.blockSteps + max(k.maxEdits, 0)
	if k.wide != nil {
		stepsEach++ // the block's own pass when it is done
	}
	blocks := (length + k.offset + k.blockSize - 1) / k.blockSize
	return blocks * stepsEach
}

// blockLoop opens block after block. It never computes a position behind the current block.
type blockLoop struct {
	*member
	*blockPlan

	// The current block has the positions from..to-1; to is 0 before the first block.
	from int
	to   int

	// size is the number of positions that its steps are planned for: all or, of others than
	// WholeBlocks, those that were masked when it began. steps is the number of these steps.
	size  int
	steps int

	// stepsMade counts the steps made in the block, and editSteps those of them that began without
	// a mask.
	stepsMade int
	editSteps int

	// wholeComputed is true if there was a pass over all of the block after its first position
	// opened. Until then a pass over a part of it would see keys of a masked first position.
	wholeComputed bool

	// partAlone means that the step's pass is over a part of the block.
	partAlone bool
}

// nextSpan returns the span of the current block or, if that is finished, of the first block with a
// mask.
func (b *blockLoop) nextSpan() span {
	first := b.from
	if !b.needsStep {
		first = b.free[slices.IndexFunc(b.free, func(p int) bool { return b.Tokens[p] == b.mask })]
		start := b.blockStart(first)
		if b.to == 0 || max(start, 0) != b.from {
			b.beginBlock(start)
		}
	}

	if b.wide != nil {
		if stale := b.firstStale(); stale < b.from { // a pass of that block, which opens nothing
			b.needsStep = true
			s := b.spanOver(b.to, b.to, b.blockStart(stale)+b.blockSize)
			s.network = b.wide
			s.causal = false
			s.cutsLength = true
			s.skipsSampler = true
			return s
		}
	}

	s := span{
		network: b.task.network,
		partial: true,
		step:    min(b.stepsMade+1, b.steps),
		steps:   b.steps,
		size:    b.size,
		visible: b.to,
	}
	s.blockFrom = b.from
	s.blockTo = b.to
	s.freeFrom, _ = slices.BinarySearch(b.free, b.from)
	s.freeTo, _ = slices.BinarySearch(b.free, b.to)
	_, s.openLimit, _ = b.openablePart(first)
	if b.wide != nil {
		s.network = b.wide
		s.cutsLength = true
	}
	return s
}

// beginBlock makes the block that begins at start, which may be below 0, the current one.
func (b *blockLoop) beginBlock(start int) {
	*b = blockLoop{
		member:    b.member,
		blockPlan: b.blockPlan,
		from:      max(start, 0),
		to:        min(start+b.blockSize, len(b.Tokens)),
		size:      b.blockSize,
		steps:     b.blockSteps,
	}
	if b.layoutKind == model.WholeBlocks {
		return
	}
	b.size = 0
	for _, t := range b.Tokens[b.from:b.to] {
		if t == b.mask {
			b.size++
		}
	}
	b.steps = min(b.steps, b.size)
}

// firstStale returns the start of the first block before the current one whose keys and values are
// not those of its tokens, or that of the current block.
func (b *blockLoop) firstStale() int {
	start := 0
	for start < b.from {
		end := b.blockStart(start) + b.blockSize
		if end > len(b.cached) || !slices.Equal(b.cached[start:end], b.Tokens[start:end]) {
			break
		}
		start = end
	}
	return start
}

// quota counts over a whole block of WholeBlocks even if some of it was known from the start.
func (b *blockLoop) quota() int { return min(b.scheduledQuota(), len(b.step.masked)) }

// openablePart returns the part of the current block whose positions the sampler opens, given the
// first masked one, and whether a pass may compute it alone.
func (b *blockLoop) openablePart(firstMasked int) (from, to int, alone bool) {
	if b.partitioner == nil {
		return b.from, b.to, false
	}
	start, end, alone := b.partitioner.Part(firstMasked)
	return max(b.from, start), min(b.to, end), alone
}

// appendPartialRows appends the rows of the current block and all rows before it from the first
// whose token differs from the one its keys and values were computed from; or those of a part of
// the block.
func (b *blockLoop) appendPartialRows(rows []int32, base int) []int32 {
	first := b.firstStale()
	if b.step.skipsSampler {
		return b.appendRowRange(rows, base, first, b.step.visible)
	}

	to := b.to
	b.partAlone = false
	if len(b.step.masked) > 0 && first == b.from && b.wholeComputed {
		start, end, alone := b.openablePart(b.step.masked[0])
		if alone && b.Tokens[start] != b.mask {
			b.partAlone = true
			first = start
			to = end
			if b.step.network.spec.Shifted { // the row before each position is computed with it
				first++
			}
		}
	}
	b.wholeComputed = b.partAlone || b.Tokens[b.from] != b.mask
	return b.appendRowRange(rows, base, first, to)
}

// recordPass implements loop. A pass of the block computes its keys and values from its tokens, so
// that they and those before it can be used again.
func (b *blockLoop) recordPass() {
	b.step.work.Partial += b.step.computedRows
	if b.partAlone {
		return // the block's keys and values are not those of its tokens
	}
	b.cached = append(b.cached[:0], b.Tokens[:b.step.visible]...)
}

// advance decides whether an editor continues with the finished block, and ends the sequence after
// a block with one of blockEnds.
func (b *blockLoop) advance() {
	b.needsStep = false
	if b.step.skipsSampler {
		return
	}
	b.stepsMade++
	edits := b.maxEdits >= 0
	block := b.free[b.step.freeFrom:b.step.freeTo]
	if slices.ContainsFunc(block, func(p int) bool { return b.Tokens[p] == b.mask }) {
		b.needsStep = edits // an editor goes on until the whole block is open
		return
	}

	beganOpen := len(b.step.masked) == 0
	if beganOpen {
		b.editSteps++
	}
	mayEditAgain := len(b.step.opening.Replace) > 0 && b.editSteps < b.maxEdits
	b.needsStep = edits && (!beganOpen || mayEditAgain)
	if b.needsStep {
		return
	}
	for _, p := range block {
		if b.endsAt(p, b.blockEnds) {
			b.fillMasked(b.step.freeTo, b.Tokens[p])
			return
		}
	}
}

// checkOpening returns an error for a choice outside the current block.
func (b *blockLoop) checkOpening() error {
	s := &b.step
	for _, position := range s.opening.Replace {
		if !slices.Contains(s.open, position) {
			return fmt.Errorf("the sampler replaces position %d, want one of %d to %d, the block",
				position, b.from, b.to-1)
		}
	}
	if len(s.opening.Close) > 0 {
		return fmt.Errorf("the sampler closes positions, want one that does not: keys and values of " +
			"blocks stay")
	}
	if len(s.opening.Positions) == 0 && len(s.masked) > 0 && s.step >= s.steps {
		return fmt.Errorf("the sampler opens nothing in the block's last step")
	}
	return nil
}

// dividesBlocks reports whether the sampler's own blocks are equal parts of the model's.
func (r Recipe) dividesBlocks(spec model.Spec) bool {
	s, ok := r.Sampler.(samplers.SemiAR)
	if !ok || s.Even == 1 {
		return false
	}
	size := cmp.Or(r.BlockSize, spec.Block)
	part := samplers.WithDefaults(s).Block
	return part < size && size%part == 0
}

// checkBlocks returns an error for a recipe that cannot run block by block.
func (r Recipe) checkBlocks(d model.Denoiser) error {
	const what = "blocks reuse"
	if r.Cache > 0 {
		return param.Refuse("cache", param.NoEffect, "cache is %d with reuse blocks, want 0", r.Cache)
	}
	if samplers.Is[samplers.Blocker](r.Sampler) && !r.dividesBlocks(d.Spec()) {
		return refuseFeature("reuse", param.NoEffect, what, "sampler: it has blocks of its own")
	}
	if samplers.Is[samplers.Clock](r.Sampler) {
		return refuseFeature("reuse", param.NoEffect, what, "sampler: it has a clock of its own")
	}

	size := d.Spec().Block
	if r.BlockSize == 0 || r.BlockSize == size {
		if size == 0 {
			return refuseFeature("reuse", param.Unsupported, what,
				"model: its positions see all others")
		}
		return nil
	}
	if _, ok := d.(model.Blockwise); !ok {
		return r.refuseParam("block-size", "0: this model has no blocks of another size",
			param.Unsupported)
	}
	if r.BlockSize&(r.BlockSize-1) != 0 {
		return r.refuseParam("block-size", "a power of two", param.OutOfRange)
	}
	return nil
}

// network is the model that a member uses. A pool has one for each block size.
type network struct {
	// denoiser is wrapped in guidance if the pool has it.
	denoiser model.Denoiser
	spec     model.Spec

	// refiner is the denoiser, or nil if it has no partial passes.
	refiner model.Refiner

	// cacheMaker is what makes the network's cache, or nil if nothing of it can be kept.
	cacheMaker cacheMaker

	// blockwise means that attention can use blocks of any size.
	blockwise bool
}

// hasShadows reports whether the network's passes may have shadows that judge tokens.
func (n *network) hasShadows() bool { return n.spec.Sparse && n.spec.Block == 0 && !n.spec.Shifted }

// checksRuns reports whether passes over blocks can be followed by one that checks a run.
func (n *network) checksRuns() bool {
	return n.spec.Sparse && n.blockwise && !n.spec.Shifted
}

// cacheMaker is a model.Refiner or a model.Feeder.
type cacheMaker interface {
	NewCache(batch, length int) *kvcache.Cache
}

// noBlocks stands for the network whose positions see all others.
const noBlocks = -1

// networkFor returns the model with blocks of a size, 0 for the model's own.
func (p *Pool) networkFor(size int) (_ *network, err error) {
	if size == p.denoiser.Spec().Block {
		size = 0
	}
	if n := p.networks[size]; n != nil {
		return n, nil
	}
	d := p.denoiser
	if size != 0 {
		d, err = d.(model.Blockwise).WithBlock(max(size, 0))
		if err != nil {
			return nil, err
		}
	}

	n := &network{denoiser: d, spec: d.Spec()}
	_, n.blockwise = d.(model.Blockwise)
	n.cacheMaker, _ = d.(cacheMaker)
	if p.options.Guided {
		n.denoiser = guide.NewPerSequence(d, p.guidanceScale)
	}
	n.refiner, _ = n.denoiser.(model.Refiner)
	if n.refiner != nil { // with guidance its cache keeps the keys and values of both passes
		n.cacheMaker = n.refiner
	}
	p.networks[size] = n
	return n, nil
}
