package samplers

// FastDLLMv2 is the sampler of Fast-dLLM v2 (Wu et al. 2025, "Fast-dLLM v2: efficient
// block-diffusion LLM"). It opens a block's first position alone, because its token depends only on
// the blocks before, as in an autoregressive model. Then, one small block after the other, it opens
// all tokens that are more probable than Theta, at least the most probable one.
type FastDLLMv2 struct {
	Theta float64 `param:"theta 1e-9..1 =0.9" help:"probability above which a token is kept"`
	Small int     `param:"small 1..1048576 =8" help:"positions of a small block"`
	Block int     `param:"block 1..1048576 =32" help:"positions of a block, counted from the start of the sequence"`
	// Cache 1 is the authors' sub-block cache, see Part.
	Cache       int     `param:"cache 0..1 =0" help:"1: with --reuse blocks, passes over a small block alone"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
	ownPace
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
	start, end, _ := f.Part(first)
	if start == first && end == first+1 {
		return c.open(v.Masked[:1]), nil
	}

	var inPart []int
	for _, p := range v.Masked {
		if p < end {
			inPart = append(inPart, p)
		}
	}
	ranked := v.topOf(inPart, len(inPart), c.score)
	theta := WithDefaults(f).Theta
	return c.open(v.firstWhile(ranked, 1, func(i int) bool { return c.p(i) > theta })), nil
}

// Part returns a block's first position, or the small block of another one. With Cache a small
// block may be computed alone (use_block_cache of the authors' program).
func (f FastDLLMv2) Part(first int) (from, to int, alone bool) {
	f = WithDefaults(f)
	offset := first % f.Block
	if offset == 0 {
		return first, first + 1, false
	}
	blockStart := first / f.Block * f.Block
	smallStart := offset / f.Small * f.Small
	return blockStart + smallStart, blockStart + min(smallStart+f.Small, f.Block), f.Cache > 0
}
