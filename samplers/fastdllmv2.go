package samplers

import (
	"cmp"

	"unmask/param"
)

// FastDLLMv2 is the sampler of Fast-dLLM v2 (Wu et al. 2025, "Fast-dLLM v2: efficient
// block-diffusion LLM"). It opens a block's first position alone, because its token depends only on
// the blocks before, as in an autoregressive model. Then, one small block after the other, it opens
// all tokens that are more probable than Theta, at least the most probable one.
type FastDLLMv2 struct {
	Theta       float64 // 0 means 0.9
	Small       int     // positions of a small block; 0 means 8
	Block       int     // positions of a block; 0 means 32
	Cache       int     // 1: the authors' sub-block cache, see Part; 0: none
	Temperature float64 // of the tokens; 0 means the most probable ones
	ownPace
}

var fastDLLMv2Rule = Rule[FastDLLMv2]{
	Name: "fast-dllm-v2", Line: "a block's first position, then small blocks by confidence",
	Paper: "Wu et al. 2025, Fast-dLLM v2",
	Params: []Param[FastDLLMv2]{
		Number(func(f *FastDLLMv2) *float64 { return &f.Theta }, confidentEnough),
		Whole(func(f *FastDLLMv2) *int { return &f.Small },
			param.Param{Name: "small", Min: 1, Max: 1 << 20, Default: "8",
				Help: "positions of a small block"}),
		Whole(func(f *FastDLLMv2) *int { return &f.Block },
			param.Param{Name: "block", Min: 1, Max: 1 << 20, Default: "32",
				Help: "positions of a block, counted from the start of the sequence"}),
		Whole(func(f *FastDLLMv2) *int { return &f.Cache },
			param.Param{Name: "cache", Min: 0, Max: 1, Default: "0",
				Help: "1: with --reuse blocks, passes over a small block alone, an approximation"}),
		Number(func(f *FastDLLMv2) *float64 { return &f.Temperature }, tokenTemperature),
	},
}

// Needs a token at every masked position.
func (f FastDLLMv2) Needs(int, int) Need { return needTokens(f.Temperature) }

// Choose opens the confident positions of the first small block that has a masked position.
func (f FastDLLMv2) Choose(v *View) (Opening, error) {
	c := v.candidates(f.Temperature)
	if len(v.Masked) == 0 {
		return c.open(nil), nil
	}
	first := v.Masked[0]
	from, to, _ := f.Part(first)
	if from == first && to == first+1 {
		return c.open(v.Masked[:1]), nil
	}
	var within []int
	for _, p := range v.Masked {
		if p < to {
			within = append(within, p)
		}
	}
	ranked := v.top(within, len(within), c.score)
	theta := cmp.Or(f.Theta, 0.9)
	return c.open(v.first(ranked, 1, func(i int) bool { return c.p(i) > theta })), nil
}

// Part returns a block's first position, or the small block of another one. With Cache a small
// block may be computed alone (use_block_cache of the authors' program).
func (f FastDLLMv2) Part(first int) (from, to int, alone bool) {
	small, block := cmp.Or(f.Small, 8), cmp.Or(f.Block, 32)
	at, from := first%block, first/block*block
	if at == 0 {
		return first, first + 1, false
	}
	return from + at/small*small, from + min(at/small*small+small, block), f.Cache > 0
}

// Tempered draws from the tempered marginals and ranks by them too, as the authors' programs do:
// there the logits are divided by the temperature before anything else.
func (f FastDLLMv2) Tempered(temperature float64) (any, float64, error) {
	marginals, err := drawTempered(&f.Temperature, temperature, "fast-dllm-v2")
	return f, marginals, err
}

// Uncached returns why there can be no second stage.
func (FastDLLMv2) Uncached() string {
	return "fast-dllm-v2 draws tokens before it chooses positions"
}
