package samplers

import "fmt"

// SemiAR opens block after block, left to right, with any sampler inside a block; each block has
// the same number of steps, if it has as many positions (Nie et al. 2025, "Large language diffusion
// models", LLaDA's semi-autoregressive remasking). Blocks are counted from the first masked
// position or, where something known follows a masked one, from the start of the sequence, and the
// last may be shorter (dLLM, core/samplers/mdlm.py, sample and infill).
type SemiAR struct {
	Inside Sampler `inside:"confidence"`
	Block  int     `param:"block 1..1048576 =32" help:"positions of a block"`
	// Even 1 puts known positions in no block.
	Even int `param:"even 0..1 =0" help:"1 makes blocks of equal size, as runs before 0.2 did"`
}

// Blocks implements Blocker.
func (s SemiAR) Blocks(free int) (n, size int) {
	size = WithDefaults(s).Block
	n = (free + size - 1) / size
	if s.Even == 1 {
		size = 0
	}
	return n, size
}

// Part implements Partitioner: within a block of a model of block diffusion (generate.Blocks),
// whose size Block divides, the blocks are parts of it. Block 1 is then strictly left to right, as
// SDAR's strategy sequential.
func (s SemiAR) Part(first int) (from, to int, alone bool) {
	size := WithDefaults(s).Block
	from = first / size * size
	return from, from + size, false
}

// Needs what the sampler inside needs.
func (s SemiAR) Needs(step, steps int) Need { return innerSampler(s).Needs(step, steps) }

// NeedsFor implements Frugal.
func (s SemiAR) NeedsFor(step, steps, k int) Need {
	return NeedsFor(innerSampler(s), step, steps, k)
}

// Choose returns the choice of the sampler inside.
func (s SemiAR) Choose(v *View) (Opening, error) { return innerSampler(s).Choose(v) }

// Check returns an error for a sampler inside that cannot run in blocks.
func (s SemiAR) Check() error {
	in := innerSampler(s)
	if Is[Clock](in) {
		return fmt.Errorf("samplers: semi-ar around a sampler with a clock of its own, want one that " +
			"goes by positions")
	}
	if Is[Blocker](in) {
		return fmt.Errorf("samplers: semi-ar inside semi-ar, want one")
	}
	if Is[Remasker](in) {
		return fmt.Errorf("samplers: semi-ar around a sampler that masks again, want one that does not")
	}
	return nil
}
