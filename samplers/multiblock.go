package samplers

import "cmp"

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

// multiState is the state of the started blocks.
type multiState struct {
	origin int    // the first block's start
	full   []bool // of each started block
	step   int    // the last one
}

// NewState returns a state before the first step.
func (MultiBlock) NewState(int) any { return new(multiState) }

// Pipeline implements Pipelined.
func (m MultiBlock) Pipeline() (block, delay int) { return cmp.Or(m.Block, 32), cmp.Or(m.Delay, 1) }

// EndsEarly marks that all behind an open end token becomes that token.
func (MultiBlock) EndsEarly() {}

// Reach implements Pipelined.
func (m MultiBlock) Reach(v *View) int {
	s, block := v.State.(*multiState), cmp.Or(m.Block, 32)
	if len(s.full) == 0 && len(v.Masked) > 0 {
		s.origin, s.full = v.Masked[0], []bool{true}
	}
	activate := cmp.Or(m.Activate, 0.95)
	if s.step != v.Step {
		s.step = v.Step
		for b := range s.full {
			s.full[b] = s.full[b] || s.share(v, block, b-1) >= activate
		}
		if last := s.share(v, block, len(s.full)-1); last >= cmp.Or(m.Add, 0.1) {
			s.full = append(s.full, last >= activate)
		}
	}
	for len(v.Masked) > 0 && v.Masked[0] >= s.origin+len(s.full)*block {
		s.full = append(s.full, true) // what lies between was known
	}
	return s.origin + len(s.full)*block
}

// share returns the open share of a block.
func (s *multiState) share(v *View, block, b int) float64 {
	from := s.origin + b*block
	to := min(from+block, len(v.Tokens))
	if b < 0 || from >= to {
		return 1
	}
	masks := 0
	for _, t := range v.Tokens[from:to] {
		if t == v.Mask {
			masks++
		}
	}
	return 1 - float64(masks)/float64(to-from)
}

// Needs entropies.
func (MultiBlock) Needs(int, int) Need { return Need{Entropy: true} }

// Choose opens the positions of low entropy, the lowest first, then one of the first full block.
func (m MultiBlock) Choose(v *View) (Opening, error) {
	s, bound, least := v.State.(*multiState), cmp.Or(m.Entropy, 0.5), 1
	if m.By == "dream" {
		least = 0
	}
	ranked := Entropy{}.Rank(v, len(v.Masked))
	take := v.first(ranked, least, func(i int) bool {
		return v.Entropy[i] < bound || m.By != "dream" && v.Entropy[i] == bound
	})
	block := cmp.Or(m.Block, 32)
	of := func(p int) int { return (p - s.origin) / block }
	for _, p := range v.Masked {
		b := of(p)
		if b >= len(s.full) || !s.full[b] {
			continue
		}
		for i, q := range ranked {
			if of(q) != b {
				continue
			}
			if i >= len(take) {
				take = append(take[:len(take):len(take)], q)
			}
			return Opening{Positions: take}, nil
		}
	}
	if len(take) == 0 && len(ranked) > 0 { // another rule has left no full block a mask
		take = ranked[:1]
	}
	return Opening{Positions: take}, nil
}
