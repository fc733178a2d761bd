package samplers

// Confidence opens first where max_x p_i(x) is largest (Zheng et al. 2023, "A reparameterized
// discrete diffusion model for text generation"; LLaDA's low-confidence remasking).
//
// With a Temperature, k positions are drawn without replacement from
// softmax(score/temperature), by Gumbel-top-k; that holds for all orders that have one.
type Confidence struct {
	Temperature float64 // of the order; 0: none, the largest first
}

// Needs the largest probability.
func (Confidence) Needs(int, int) Need { return Need{Top: true} }

// Rank returns the most confident.
func (c Confidence) Rank(v *View, k int) []int {
	return v.tempered(k, c.Temperature, func(i int) float64 { return v.P1[i] })
}

// Check wants a temperature of at least 0.
func (c Confidence) Check() error { return positive("temperature", c.Temperature) }

// tempered is Top of score/temperature + Gumbel noise, or of score alone.
func (v *View) tempered(k int, temperature float64, score func(i int) float64) []int {
	if temperature == 0 {
		return v.Top(k, score)
	}
	return v.Top(k, func(i int) float64 { return score(i)/temperature + v.Gumbel(i) })
}
