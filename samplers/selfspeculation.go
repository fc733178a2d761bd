package samplers

import "cmp"

// SelfSpeculation makes the text of left-to-right decoding in fewer passes: one network drafts a
// block of tokens at once, in a pass in which they see each other as masks, and a causal pass
// checks them (NVIDIA, Nemotron-Labs-Diffusion, linear self-speculation). A checked token is the
// one that the causal pass draws, so the draft changes the number of passes and nothing else. It
// needs reuse causal on a model that predicts the next token there; elsewhere it opens the
// schedule's number of positions from left to right.
type SelfSpeculation struct {
	Block       int     `param:"block 1..64 =8" help:"positions of a draft, with the known one before it"`
	Theta       float64 `param:"theta 1e-9..1 0=one pass" help:"passes of a draft go on for tokens this probable"`
	From        int     `param:"from 1..64 0=block" help:"first size of a draft, which doubles or halves by what was right"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
}

// MaxDraft is the largest block of a draft and the largest window of WeDLM.
const MaxDraft = 64

// Speculator is a Sampler that chooses and draws as SelfSpeculation does, one position after the
// other; the loop drafts.
type Speculator interface {
	// Drafts returns the smallest and the largest block of a draft, the probability that a token
	// needs in one of several passes (0: one pass), and the temperature of the tokens.
	Drafts() (smallest, largest int, theta, temperature float64)
}

// Drafts implements Speculator.
func (s SelfSpeculation) Drafts() (smallest, largest int, theta, temperature float64) {
	largest = WithDefaults(s).Block
	return min(cmp.Or(s.From, largest), largest), largest, s.Theta, s.Temperature
}

// Needs a token at every position of the draft.
func (s SelfSpeculation) Needs(int, int) Need { return needTokens(s.Temperature) }

// Choose opens the first positions: of a checked draft all, of which the loop keeps those that were
// right and the one after them.
func (s SelfSpeculation) Choose(v *View) (Opening, error) {
	return v.candidates(s.Temperature).open(v.Masked[:v.Quota]), nil
}
