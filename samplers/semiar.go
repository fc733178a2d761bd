package samplers

import "fmt"

// SemiAR opens block after block, left to right, with any sampler inside a block; the steps
// are split evenly (Nie et al. 2025, "Large language diffusion models", LLaDA's
// semi-autoregressive remasking). Known positions belong to no block.
type SemiAR struct {
	Inside Sampler
	Block  int // positions of a block; 0 means 32
}

// Blocks is how many there are.
func (s SemiAR) Blocks(free int) int {
	block := s.Block
	if block == 0 {
		block = 32
	}
	return (free + block - 1) / block
}

// Needs is what the sampler inside needs.
func (s SemiAR) Needs(step, steps int) Need { return s.Inside.Needs(step, steps) }

// Choose is the sampler's inside.
func (s SemiAR) Choose(v *View) (Opening, error) { return s.Inside.Choose(v) }

// Check refuses what does not go by positions.
func (s SemiAR) Check() error {
	if s.Inside == nil || s.Block < 0 {
		return fmt.Errorf("samplers: semi-ar with block %d, want a sampler inside and a block of at least 1", s.Block)
	}
	if _, ok := As[Clock](s.Inside); ok {
		return fmt.Errorf("samplers: semi-ar around a sampler with a clock of its own, want one that goes by positions")
	}
	if _, ok := As[Blocker](s.Inside); ok {
		return fmt.Errorf("samplers: semi-ar inside semi-ar, want one")
	}
	if _, ok := As[Remasker](s.Inside); ok {
		return fmt.Errorf("samplers: semi-ar around a sampler that masks again, want one that does not")
	}
	return nil
}

// Unwrap returns the sampler inside.
func (s SemiAR) Unwrap() []any { return []any{s.Inside} }
