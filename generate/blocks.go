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
// sequence ends with the block in which a token of Spec.Ends opens.
//
// With model.AnswerBlocks a prompt may end within one of the kernels' blocks, which begin at
// multiples of their size. Such a sequence uses the network without blocks: a pass is over one
// block and sees nothing behind it, and each block before that has a pass of its own.
//
// The original programs make an extra pass over a prompt and over each finished block; here that
// work is part of the next block's first pass.

// blockwork holds what a task with Reuse Blocks needs.
type blockwork struct {
	lie        model.Blocks
	blockSize  int      // positions
	offset     int      // of positions, missing in the first block
	wide       *network // sees all positions; nil: offset is 0
	blockSteps int
	// for editing samplers, steps of a block after its last mask; -1: the sampler replaces nothing
	post      int
	parted    samplers.Partitioner // nil: the sampler opens positions of the whole block
	blockEnds []int32              // tokens that end the sequence with their block
}

// newBlockwork returns the blockwork of a recipe with Reuse Blocks.
func (p *Pool) newBlockwork(spec model.Spec, r Recipe, l layout, ends []int32) (*blockwork, error) {
	k := &blockwork{post: -1, blockSize: spec.Block, lie: spec.Blocks,
		blockEnds: append(slices.Clone(spec.EndTokens), ends...)}
	if k.blockSteps = min(r.Steps, k.blockSize); samplers.Is[samplers.Planner](r.Sampler) {
		k.blockSteps = k.blockSize
	}
	if e, ok := samplers.As[samplers.Editor](r.Sampler); ok {
		k.post = e.Edits()
	}
	k.parted, _ = r.Sampler.(samplers.Partitioner)
	if spec.Blocks != model.AnswerBlocks || len(l.free) == 0 || l.free[0]%k.blockSize == 0 {
		return k, nil
	}
	var err error
	k.offset = k.blockSize - l.free[0]%k.blockSize
	k.wide, err = p.network(noBlocks)
	return k, err
}

// start returns the first position of the block of p, below 0 if that is short.
func (k *blockwork) start(p int) int { return (p+k.offset)/k.blockSize*k.blockSize - k.offset }

// maxSteps returns the most steps that a sequence can take.
func (k *blockwork) maxSteps(length int) int {
	each := k.blockSteps + max(k.post, 0)
	if k.wide != nil {
		each++ // the block's own pass when it is done
	}
	return (length + k.offset + k.blockSize - 1) / k.blockSize * each
}

// blockLoop opens block after block. It never computes a position behind the current block.
type blockLoop struct {
	*member
	*blockwork
	from, to int  // positions of the current block; to is 0 before the first
	size     int  // positions that its steps are planned for: all or, of others than WholeBlocks,
	steps    int  // those that were masked; and the steps
	n, after int  // steps made in the block, and those of them that began without a mask
	whole    bool // there was a pass over all of it after its first position opened
	alone    bool // the step's pass is over a part of it
}

// next returns the span of the current block or, if that is finished, of the first block with a
// mask.
func (b *blockLoop) next() span {
	first := b.from
	if !b.again {
		first = b.free[slices.IndexFunc(b.free, func(p int) bool { return b.Tokens[p] == b.mask })]
		if from := b.start(first); b.to == 0 || max(from, 0) != b.from {
			*b = blockLoop{member: b.member, blockwork: b.blockwork, from: max(from, 0),
				to: min(from+b.blockSize, len(b.Tokens)), size: b.blockSize, steps: b.blockSteps}
			if b.lie != model.WholeBlocks {
				b.size = 0
				for p := b.from; p < b.to; p++ {
					if b.Tokens[p] == b.mask {
						b.size++
					}
				}
				b.steps = min(b.steps, b.size)
			}
		}
	}
	if b.wide != nil {
		if stale := b.stale(); stale < b.from { // this block's pass, which opens nothing
			b.again = true
			s := b.over(b.to, b.to, b.start(stale)+b.blockSize)
			s.network, s.causal, s.bounded, s.quiet = b.wide, false, true, true
			return s
		}
	}
	s := span{network: b.task.network, partial: true, n: min(b.n+1, b.steps), of: b.steps,
		size: b.size, seen: b.to}
	s.from, _ = slices.BinarySearch(b.free, b.from)
	s.to, _ = slices.BinarySearch(b.free, b.to)
	_, s.end, _ = b.part(first)
	if b.wide != nil {
		s.network, s.bounded = b.wide, true
	}
	return s
}

// stale returns the start of the first block before the current one whose keys and values are not
// those of its tokens, or that of the current block.
func (b *blockLoop) stale() int {
	at := 0
	for at < b.from {
		end := b.start(at) + b.blockSize
		if end > len(b.cached) || !slices.Equal(b.cached[at:end], b.Tokens[at:end]) {
			break
		}
		at = end
	}
	return at
}

// quota counts over a whole block of WholeBlocks even if some of it was known from the start.
func (b *blockLoop) quota() int { return min(b.planned(), len(b.step.masked)) }

// part returns the part of the current block whose positions the sampler opens, and whether a pass
// may compute it alone.
func (b *blockLoop) part(first int) (from, to int, alone bool) {
	from, to = b.from, b.to
	if b.parted != nil {
		start, end, ok := b.parted.Part(first)
		from, to, alone = max(from, start), min(to, end), ok
	}
	return from, to, alone
}

// feed appends the rows of the current block and all rows before it from the first whose token
// differs from the one its keys and values were computed from; or those of a part of the block.
func (b *blockLoop) feed(rows []int32, base int) []int32 {
	if b.step.quiet {
		return b.appendRows(rows, base, b.stale(), b.step.seen)
	}
	first, to, masked := b.stale(), b.to, b.step.masked
	if b.alone = false; len(masked) > 0 && first == b.from && b.whole {
		if start, end, alone := b.part(masked[0]); alone && b.Tokens[start] != b.mask {
			b.alone, first, to = true, start, end
			if b.step.network.spec.Shifted { // the row before each position is computed with it
				first++
			}
		}
	}
	b.whole = b.alone || b.Tokens[b.from] != b.mask
	return b.appendRows(rows, base, first, to)
}

func (b *blockLoop) kept() {
	b.step.work.Partial += b.step.fed
	if !b.alone { // after a part alone the block's keys and values are not these tokens'
		b.cached = append(b.cached[:0], b.Tokens[:b.step.seen]...)
	}
}

// advance decides whether an editor continues with the finished block, and ends the sequence after
// a block with one of blockEnds.
func (b *blockLoop) advance() {
	if b.again = false; b.step.quiet {
		return
	}
	full := len(b.step.masked) == 0
	b.n++
	block := b.free[b.step.from:b.step.to]
	if slices.ContainsFunc(block, func(p int) bool { return b.Tokens[p] == b.mask }) {
		b.again = b.post >= 0 // an editor goes on until the whole block is open
		return
	}
	if full {
		b.after++
	}
	b.again = b.post >= 0 && (!full || len(b.step.opening.Replace) > 0 && b.after < b.post)
	if b.again {
		return
	}
	for _, p := range block {
		if b.endsAt(p, b.blockEnds) {
			b.fill(b.step.to, b.Tokens[p])
			return
		}
	}
}

// check returns an error for a choice outside the current block.
func (b *blockLoop) check() error {
	s, o := &b.step, &b.step.opening
	for _, at := range o.Replace {
		if !slices.Contains(s.open, at) {
			return fmt.Errorf("the sampler replaces position %d, want one of %d to %d, the block", at,
				b.from, b.to-1)
		}
	}
	if len(o.Close) > 0 {
		return fmt.Errorf("the sampler closes positions, want one that does not: keys and values of " +
			"blocks stay")
	}
	if len(o.Positions) == 0 && len(s.masked) > 0 && s.n >= s.of {
		return fmt.Errorf("the sampler opens nothing in the block's last step")
	}
	return nil
}

// checkBlocks returns an error for a recipe that cannot run block by block.
func (r Recipe) checkBlocks(d model.Denoiser) error {
	size := d.Spec().Block
	other := r.BlockSize != 0 && r.BlockSize != size
	_, blockwise := d.(model.Blockwise)
	const what = "blocks reuse"
	if r.Cache > 0 {
		return param.Refuse("cache", param.NoEffect, "cache is %d with reuse blocks, want 0", r.Cache)
	}
	return cmp.Or(
		without(!samplers.Is[samplers.Blocker](r.Sampler), "reuse", param.NoEffect, what,
			"sampler: it has blocks of its own"),
		without(!samplers.Is[samplers.Clock](r.Sampler), "reuse", param.NoEffect, what,
			"sampler: it has a clock of its own"),
		r.unless(!other || blockwise, "block-size",
			"0: this model has no blocks of another size", param.Unsupported),
		r.unless(!other || r.BlockSize&(r.BlockSize-1) == 0, "block-size", "a power of two",
			param.OutOfRange),
		without(other || size > 0, "reuse", param.Unsupported, what,
			"model: its positions see all others"))
}

// network is the model that a member uses. A pool has one for each block size.
type network struct {
	d       model.Denoiser // wrapped in guidance if the pool has it
	refiner model.Refiner  // d, or nil if it has no partial passes
	keeper  keeper         // refiner, or the model.Feeder; nil if it keeps no keys and values
	spec    model.Spec

	blockwise bool // blocks may have other sizes
}

// shadows reports whether the network's passes may have shadows that judge tokens.
func (n *network) shadows() bool { return n.spec.Sparse && n.spec.Block == 0 && !n.spec.Shifted }

// checksRuns reports whether passes over blocks can be followed by one that checks a run.
func (n *network) checksRuns() bool {
	return n.spec.Sparse && n.blockwise && !n.spec.Shifted
}

// keeper is a model.Refiner or a model.Feeder.
type keeper interface {
	NewCache(batch, length int) *kvcache.Cache
}

// noBlocks stands for the network whose positions see all others.
const noBlocks = -1

// network returns the model with blocks of a size, 0 for the model's own.
func (p *Pool) network(size int) (*network, error) {
	if size == p.d.Spec().Block {
		size = 0
	}
	if n := p.networks[size]; n != nil {
		return n, nil
	}
	d := p.d
	if size != 0 {
		var err error
		if d, err = d.(model.Blockwise).WithBlock(max(size, 0)); err != nil {
			return nil, err
		}
	}
	n := &network{d: d, spec: d.Spec()}
	_, n.blockwise = d.(model.Blockwise)
	if p.o.Guided {
		n.d = guide.NewPerSequence(d, p.guidance)
	}
	n.keeper, _ = d.(keeper)
	if n.refiner, _ = n.d.(model.Refiner); n.refiner != nil { // with guidance it keeps two of each
		n.keeper = n.refiner
	}
	p.networks[size] = n
	return n, nil
}
