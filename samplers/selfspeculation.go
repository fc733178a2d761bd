package samplers

import (
	"cmp"

	"unmask/param"
)

// SelfSpeculation makes the text of left-to-right decoding in fewer passes: one network drafts a
// block of tokens at once, in a pass in which they see each other as masks, and a causal pass
// checks them (NVIDIA, Nemotron-Labs-Diffusion, linear self-speculation). A checked token is the
// one that the causal pass draws, so the draft changes the number of passes and nothing else. It
// needs reuse causal on a model that predicts the next token there; elsewhere it opens the
// schedule's number of positions from left to right.
type SelfSpeculation struct {
	Block       int     // positions of a draft, with the known one before it; 0 means 8
	Theta       float64 // a draft takes several passes, each for tokens above this; 0: one pass
	From        int     // the first draft's size, which grows to Block and shrinks again; 0: Block
	Temperature float64 // of the tokens; 0 means the most probable ones
}

var selfSpeculationRule = Rule[SelfSpeculation]{
	Name: "self-speculation", Line: "drafts a block and checks it: left-to-right text, fewer passes",
	Paper: "NVIDIA 2026, Nemotron-Labs-Diffusion",
	Params: []Param[SelfSpeculation]{
		Whole(func(s *SelfSpeculation) *int { return &s.Block },
			param.Param{Name: "block", Min: 1, Max: MaxDraft, Default: "8",
				Help: "positions of a draft, with the known one before it"}),
		Number(func(s *SelfSpeculation) *float64 { return &s.Theta },
			param.Param{Name: "theta", Min: 1e-9, Max: 1, Zero: "one pass", Default: "0",
				Help: "a draft takes several passes, each for tokens this probable; 0 for one pass"}),
		Whole(func(s *SelfSpeculation) *int { return &s.From },
			param.Param{Name: "from", Min: 1, Max: MaxDraft, Zero: "block", Default: "0",
				Help: "first size of a draft, doubled when all of it was right, halved when half was not"}),
		Number(func(s *SelfSpeculation) *float64 { return &s.Temperature }, tokenTemperature),
	},
}

// MaxDraft is the largest block of a draft and the largest window of WeDLM.
const MaxDraft = 64

// Speculator is a Sampler that chooses and draws as SelfSpeculation does, one position after the
// other; the loop drafts.
type Speculator interface {
	// Drafts returns the smallest and the largest block of a draft, the probability that a token
	// needs in one of several passes (0: one pass), and the temperature of the tokens.
	Drafts() (from, block int, theta, temperature float64)
}

// Drafts implements Speculator.
func (s SelfSpeculation) Drafts() (from, block int, theta, temperature float64) {
	block = cmp.Or(s.Block, 8)
	return min(cmp.Or(s.From, block), block), block, s.Theta, s.Temperature
}

// Needs a token at every position of the draft.
func (s SelfSpeculation) Needs(int, int) Need { return needTokens(s.Temperature) }

// Choose opens the first positions: of a checked draft all, of which the loop keeps those that were
// right and the one after them.
func (s SelfSpeculation) Choose(v *View) (Opening, error) {
	return v.candidates(s.Temperature).open(v.Masked[:v.Quota]), nil
}

// Tempered implements Tempered: the temperature shapes the tokens, as in low-confidence, and those
// of the draft too.
func (s SelfSpeculation) Tempered(temperature float64) (any, float64, error) {
	err := own(s.Temperature, temperature, "self-speculation")
	s.Temperature = temperature
	return s, 1, err
}

// Uncached returns why there can be no second stage.
func (SelfSpeculation) Uncached() string { return "self-speculation checks every token" }
