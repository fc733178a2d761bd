package generate

import (
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
// unless the sampler lets passes compute a part of the block alone (samplers.Parted). A sequence
// ends with the block in which a token of Spec.Ends opens.
//
// The original programs make an extra pass over a prompt and over each finished block; here that
// work is part of the next block's first pass.

// blockwork holds what a task with Reuse Blocks needs.
type blockwork struct {
	blockSize  int // positions
	blockSteps int
	// for editing samplers, steps of a block after its last mask; -1: the sampler replaces
	// nothing
	post      int
	parted    samplers.Parted // nil: the sampler opens positions of the whole block
	blockEnds []int32         // tokens that end the sequence with their block
}

// newBlockwork returns the blockwork of a recipe with Reuse Blocks.
func newBlockwork(spec model.Spec, r Recipe, ends []int32) *blockwork {
	k := &blockwork{post: -1, blockSize: spec.Block,
		blockEnds: append(slices.Clone(spec.Ends), ends...)}
	if k.blockSteps = min(r.Steps, k.blockSize); r.plansItself() {
		k.blockSteps = k.blockSize
	}
	if e, ok := samplers.As[samplers.Editor](r.Sampler); ok {
		k.post = e.Edits()
	}
	k.parted, _ = r.Sampler.(samplers.Parted)
	return k
}

// plansItself reports whether the sampler decides how many positions a step opens.
func (r Recipe) plansItself() bool {
	_, ok := samplers.As[samplers.Planner](r.Sampler)
	return ok
}

// maxSteps returns the most steps that a sequence can take.
func (k *blockwork) maxSteps(length int) int {
	return (length + k.blockSize - 1) / k.blockSize * (k.blockSteps + max(k.post, 0))
}

// blockLoop opens block after block. It never computes a position behind the current block.
type blockLoop struct {
	*member
	*blockwork
	from, to int  // positions of the current block; to is 0 before the first
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
		if from := first / b.blockSize * b.blockSize; b.to == 0 || from != b.from {
			*b = blockLoop{member: b.member, blockwork: b.blockwork, from: from,
				to: min(from+b.blockSize, len(b.Tokens))}
		}
	}
	s := span{network: b.task.network, partial: true, n: min(b.n+1, b.blockSteps), of: b.blockSteps,
		size: b.blockSize, seen: b.to}
	s.from, _ = slices.BinarySearch(b.free, b.from)
	s.to, _ = slices.BinarySearch(b.free, b.to)
	_, s.end, _ = b.part(first)
	return s
}

// quota counts over a whole block even if some of it was known from the start.
func (b *blockLoop) quota() int {
	s, masked := &b.step, len(b.step.masked)
	if s.n >= s.of {
		return masked
	}
	open := func(n int) int { return samplers.Open(b.Schedule, float64(n), s.of, s.size) }
	return min(open(s.n)-open(s.n-1), masked)
}

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
	first, to, masked := 0, b.to, b.step.masked
	for ; first < b.from; first += b.blockSize {
		end := min(first+b.blockSize, len(b.cached))
		if first+b.blockSize > end || !slices.Equal(b.cached[first:end], b.Tokens[first:end]) {
			break
		}
	}
	if b.alone = false; len(masked) > 0 && first == b.from && b.whole {
		if start, end, alone := b.part(masked[0]); alone && b.Tokens[start] != b.mask {
			b.alone, first, to = true, start, end
			if b.step.network.spec.Shifted { // the row before each position is computed with it
				first++
			}
		}
	}
	b.whole = b.alone || b.Tokens[b.from] != b.mask
	for p := first; p < to; p++ {
		rows = append(rows, int32(base+p))
	}
	return rows
}

func (b *blockLoop) kept() {
	b.step.work.Partial += b.step.fed
	if !b.alone { // after a part alone the block's keys and values are not these tokens'
		b.cached = append(b.cached[:0], b.Tokens[:b.to]...)
	}
}

// advance decides whether an editor continues with the finished block, and ends the sequence after
// a block with one of blockEnds.
func (b *blockLoop) advance() {
	full := len(b.step.masked) == 0
	b.n, b.again = b.n+1, false
	block := b.free[b.step.from:b.step.to]
	if slices.ContainsFunc(block, func(p int) bool { return b.Tokens[p] == b.mask }) {
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
	if r.Cache > 0 {
		return param.Refuse("cache", param.NoEffect,
			"cache is %d with reuse blocks, want 0", r.Cache)
	}
	if _, ok := samplers.As[samplers.Blocker](r.Sampler); ok {
		return param.Refuse("reuse", param.NoEffect,
			"no blocks reuse with this sampler: it has blocks of its own")
	}
	if _, ok := samplers.As[samplers.Clock](r.Sampler); ok {
		return param.Refuse("reuse", param.NoEffect,
			"no blocks reuse with this sampler: it has a clock of its own")
	}
	size := d.Spec().Block
	if r.BlockSize != 0 && r.BlockSize != size {
		if _, ok := d.(model.Blockwise); !ok {
			return param.Refuse("block-size", param.Unsupported,
				"block-size is %d, want 0: this model has no blocks of another size", r.BlockSize)
		}
		if r.BlockSize&(r.BlockSize-1) != 0 {
			return param.Refuse("block-size", param.OutOfRange,
				"block-size is %d, want a power of two", r.BlockSize)
		}
		size = r.BlockSize
	}
	if size == 0 {
		return param.Refuse("reuse", param.Unsupported,
			"no blocks reuse with this model: its positions see all others")
	}
	return nil
}

// network is the model that a member uses. A pool has one for each block size.
type network struct {
	d       model.Denoiser // wrapped in guidance if the pool has it
	refiner model.Refiner  // d, or nil if it has no partial passes
	keeper  keeper         // d, or nil if it keeps no keys and values
	spec    model.Spec
}

// keeper is a model.Refiner or a model.Feeder.
type keeper interface {
	NewCache(batch, length int) *kvcache.Cache
}

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
		if d, err = d.(model.Blockwise).WithBlock(size); err != nil {
			return nil, err
		}
	}
	n := &network{d: d, spec: d.Spec()}
	if p.o.Guided {
		n.d = guide.Each(d, p.guidance)
	}
	n.refiner, _ = n.d.(model.Refiner)
	n.keeper, _ = n.d.(keeper)
	p.networks[size] = n
	return n, nil
}
