package samplers

import "slices"

// MultiBlock opens several blocks at once (d3LLM, arXiv 2601.07568, generate_multi_block of the
// authors' program, which has models trained for it). A block starts when a share Add of the one
// before it is open, one a pass. What has an entropy of at most Entropy opens in all started
// blocks, and always the position with the least of all. A block is full once a share Activate of
// the one before it is open: of the first full block with a mask at least one position opens.
//
// With By dream, as in the program for Dream, the entropy must be below the bound and the least of
// all does not count. Where an end token opens, all behind it becomes that token.
type MultiBlock struct {
	Entropy  float64 `param:"entropy 1e-9..1e3 =0.5" help:"entropy that is low enough, nats"`
	Add      float64 `param:"add 1e-9..1 =0.1" help:"open share of a block from which the next one starts"`
	Activate float64 `param:"activate 1e-9..1 =0.95" help:"open share from which the next block must open something"`
	Block    int     `param:"block 1..1048576 =32" help:"positions of a block"`
	By       string  `param:"by llada|dream" help:"the authors' program that it follows"`
	Delay    int     `param:"delay 1..1024 =1" help:"with reuse finished, passes that a finished block waits"`
	ownPace
}

// Pipeliner is a Sampler that opens several blocks at once, the first of which begins with the
// first mask.
type Pipeliner interface {
	// Pipeline returns the positions of a block, and the passes after which the keys and values of a
	// finished one stay.
	Pipeline() (block, delay int)
	// Reach returns the first position that does not open in this step. v has no measures yet.
	Reach(v *View) int
}

// multiBlockState is the state of the started blocks.
type multiBlockState struct {
	// origin is the first block's start.
	origin int

	// full says of each started block whether it is full.
	full []bool

	// step is the last one that Reach has seen.
	step int
}

// NewState returns a state before the first step.
func (MultiBlock) NewState(int) any { return new(multiBlockState) }

// Pipeline implements Pipeliner.
func (m MultiBlock) Pipeline() (block, delay int) {
	m = WithDefaults(m)
	return m.Block, m.Delay
}

// EndsEarly marks that all behind an open end token becomes that token.
func (MultiBlock) EndsEarly() {}

// Reach implements Pipeliner.
func (m MultiBlock) Reach(v *View) int {
	m = WithDefaults(m)
	s := v.State.(*multiBlockState)
	if len(s.full) == 0 && len(v.Masked) > 0 {
		s.origin = v.Masked[0]
		s.full = []bool{true}
	}

	if s.step != v.Step { // Reach may be called several times in a step, but one block starts in it
		s.step = v.Step
		for b := range s.full {
			s.full[b] = s.full[b] || s.openShare(v, m.Block, b-1) >= m.Activate
		}
		last := s.openShare(v, m.Block, len(s.full)-1)
		if last >= m.Add {
			s.full = append(s.full, last >= m.Activate)
		}
	}
	for len(v.Masked) > 0 && v.Masked[0] >= s.origin+len(s.full)*m.Block {
		s.full = append(s.full, true) // what lies between was known
	}
	return s.origin + len(s.full)*m.Block
}

// openShare returns the share of a block's positions that are open; 1 for a block outside of the
// sequence.
func (s *multiBlockState) openShare(v *View, block, b int) float64 {
	start := s.origin + b*block
	end := min(start+block, len(v.Tokens))
	if b < 0 || start >= end {
		return 1
	}
	masks := 0
	for _, token := range v.Tokens[start:end] {
		if token == v.Mask {
			masks++
		}
	}
	return 1 - float64(masks)/float64(end-start)
}

// Needs entropies.
func (MultiBlock) Needs(int, int) Need { return Need{Entropy: true} }

// Choose opens the positions of low entropy, the lowest first, then one of the first full block.
func (m MultiBlock) Choose(v *View) (Opening, error) {
	m = WithDefaults(m)
	s := v.State.(*multiBlockState)
	minCount := 1 // position, however high its entropy is
	if m.By == "dream" {
		minCount = 0
	}
	ranked := Entropy{}.Rank(v, len(v.Masked))
	chosen := v.firstWhile(ranked, minCount, func(i int) bool {
		return v.Entropy[i] < m.Entropy || m.By != "dream" && v.Entropy[i] == m.Entropy
	})

	blockOf := func(position int) int { return (position - s.origin) / m.Block }
	for _, p := range v.Masked {
		b := blockOf(p)
		if b >= len(s.full) || !s.full[b] {
			continue
		}
		// b is the first full block with a mask. Its best position opens if none of its positions
		// is chosen yet.
		best := slices.IndexFunc(ranked, func(q int) bool { return blockOf(q) == b })
		if best >= len(chosen) {
			chosen = append(slices.Clip(chosen), ranked[best])
		}
		return Opening{Positions: chosen}, nil
	}

	if len(chosen) == 0 && len(ranked) > 0 { // another rule has left no full block a mask
		chosen = ranked[:1]
	}
	return Opening{Positions: chosen}, nil
}
