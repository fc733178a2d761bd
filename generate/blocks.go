package generate

import (
	"fmt"
	"slices"

	"unmask/guide"
	"unmask/model"
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
	size  int // positions of a block
	steps int // of a block
	// for editing samplers, steps of a block after its last mask; -1: the sampler replaces
	// nothing
	post   int
	parted samplers.Parted // nil: the sampler opens positions of the whole block
	closes []int32
}

// newBlockwork returns the blockwork of a recipe on a model, the zero value without blocks.
func newBlockwork(spec model.Spec, r Recipe, ends []int32) blockwork {
	k := blockwork{post: -1}
	if r.Reuse != Blocks {
		return k
	}
	k.size, k.closes = spec.Block, append(slices.Clone(spec.Ends), ends...)
	if k.steps = min(r.Steps, k.size); r.plansItself() {
		k.steps = k.size
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

// most returns the most steps that a sequence can take.
func (k *blockwork) most(length int) int {
	return (length + k.size - 1) / k.size * (k.steps + max(k.post, 0))
}

// block is the state of a member with Reuse Blocks.
type block struct {
	from, to int  // positions; to is 0 before the first block
	n, after int  // steps made in the block, and those of them that began without a mask
	again    bool // no position is masked, and an editor takes one more step
	whole    bool // there was a pass over all of it after its first position opened
	alone    bool // the step's pass is over a part of it
}

// nextBlock returns the window of the next step: the current block or, if that is finished, the
// first block with a mask.
func (m *member) nextBlock(mask int32) window {
	k := &m.block
	if !k.again {
		first := slices.IndexFunc(m.free, func(p int) bool { return m.Tokens[p] == mask })
		if from := m.free[first] / m.size * m.size; k.to == 0 || from != k.from {
			*k = block{from: from, to: min(from+m.size, len(m.Tokens))}
		}
	}
	from, _ := slices.BinarySearch(m.free, k.from)
	to, _ := slices.BinarySearch(m.free, k.to)
	return window{step: min(k.n+1, m.blockwork.steps), of: m.blockwork.steps, from: from, to: to}
}

// blockQuota returns the number of positions that the schedule opens, counted over a whole block
// even if some of it was known from the start.
func (m *member) blockQuota() int {
	if m.step >= m.of {
		return len(m.masked)
	}
	open := func(n int) int { return samplers.Open(m.Schedule, float64(n), m.of, m.size) }
	return min(open(m.step)-open(m.step-1), len(m.masked))
}

// part returns the part of the current block whose positions the sampler opens, and whether a pass
// may compute it alone.
func (m *member) part(first int) (from, to int, alone bool) {
	from, to = m.block.from, m.block.to
	if m.parted != nil {
		a, b, ok := m.parted.Part(first)
		from, to, alone = max(from, a), min(to, b), ok
	}
	return from, to, alone
}

// feedBlocks adds the rows of the current block and all rows before it from the first whose token
// differs from the one its keys and values were computed from; or those of a part of the block.
func (m *member) feedBlocks(rows []int32, base int, mask int32) []int32 {
	first, k := 0, &m.block
	for ; first < k.from; first += m.size {
		end := min(first+m.size, len(m.cache.tokens))
		if first+m.size > end || !slices.Equal(m.cache.tokens[first:end], m.Tokens[first:end]) {
			break
		}
	}
	to := k.to
	if k.alone = false; len(m.masked) > 0 && first == k.from && k.whole {
		if a, b, alone := m.part(m.masked[0]); alone && m.Tokens[a] != mask {
			k.alone, first, to = true, a, b
			if m.network.spec.Shifted { // the row before each position is computed with it
				first++
			}
		}
	}
	k.whole = k.alone || m.Tokens[k.from] != mask
	for p := first; p < to; p++ {
		rows = append(rows, int32(base+p))
	}
	return rows
}

// blockDone updates the state of a member with Reuse Blocks after a step.
func (m *member) blockDone(mask int32) {
	k := &m.block
	full := len(m.masked) == 0
	k.n, k.again = k.n+1, false
	of := m.free[m.from:m.to]
	if slices.ContainsFunc(of, func(p int) bool { return m.Tokens[p] == mask }) {
		return
	}
	if full {
		k.after++
	}
	if k.again = m.post >= 0 && (!full || len(m.opening.Replace) > 0 && k.after < m.post); k.again {
		return
	}
	for _, p := range of {
		if slices.Contains(m.closes, m.Tokens[p]) {
			m.fill(m.to, mask, m.Tokens[p])
			return
		}
	}
}

// checkBlock returns an error for an opening outside the current block.
func (m *member) checkBlock() error {
	o := &m.opening
	for _, at := range o.Replace {
		if !slices.Contains(m.open, at) {
			return fmt.Errorf("the sampler replaces position %d, want one of %d to %d, the block", at,
				m.block.from, m.block.to-1)
		}
	}
	if len(o.Close) > 0 {
		return fmt.Errorf("the sampler closes positions, want one that does not: keys and values of " +
			"blocks stay")
	}
	if len(o.Positions) == 0 && len(m.masked) > 0 && m.step >= m.of {
		return fmt.Errorf("the sampler opens nothing in the block's last step")
	}
	return nil
}

// checkBlocks returns an error for a recipe that cannot run block by block.
func (r Recipe) checkBlocks(d model.Denoiser) error {
	if r.Cache > 0 {
		return fmt.Errorf("cache is %d with reuse blocks, want 0", r.Cache)
	}
	if _, ok := samplers.As[samplers.Blocker](r.Sampler); ok {
		return fmt.Errorf("no blocks reuse with this sampler: it has blocks of its own")
	}
	if _, ok := samplers.As[samplers.Clock](r.Sampler); ok {
		return fmt.Errorf("no blocks reuse with this sampler: it has a clock of its own")
	}
	size := d.Spec().Block
	if r.BlockSize != 0 && r.BlockSize != size {
		if _, ok := d.(model.Blockwise); !ok {
			return fmt.Errorf("block-size is %d, want 0: this model has no blocks of another size",
				r.BlockSize)
		}
		if r.BlockSize&(r.BlockSize-1) != 0 {
			return fmt.Errorf("block-size is %d, want a power of two", r.BlockSize)
		}
		size = r.BlockSize
	}
	if size == 0 {
		return fmt.Errorf("no blocks reuse with this model: its positions see all others")
	}
	return nil
}

// network is the model that a member uses. A pool has one for each block size.
type network struct {
	d       model.Denoiser // wrapped in guidance if the pool has it
	refiner model.Refiner  // d, or nil if it has no partial passes
	spec    model.Spec
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
	p.networks[size] = n
	return n, nil
}
