package samplers

// Confidence opens the positions with the largest max_x p_i(x) first (Zheng et al. 2023, "A
// reparameterized discrete diffusion model for text generation"; LLaDA's low-confidence remasking).
//
// With a Temperature, k positions are drawn without replacement from softmax(score/temperature), by
// Gumbel-top-k. This holds for every order with a Temperature.
type Confidence struct {
	Temperature float64 `param:"temperature 1e-6..1e6 0=none" help:"of the draw of positions; 0 takes the best"`
}

// Needs the largest probability.
func (Confidence) Needs(int, int) Need { return Need{Top: true} }

// Rank returns the most confident.
func (c Confidence) Rank(v *View, k int) []int {
	return v.topTempered(k, c.Temperature, func(i int) float64 { return v.P1[i] })
}

// topTempered returns Top of score/temperature + Gumbel noise, or of score alone if temperature is
// 0.
func (v *View) topTempered(k int, temperature float64, score func(i int) float64) []int {
	if temperature == 0 {
		return v.Top(k, score)
	}
	return v.Top(k, func(i int) float64 { return score(i)/temperature + v.Gumbel(i) })
}
