package experiments

import (
	"math"

	"unmask/internal/philox"
	"unmask/samplers"
)

// fixedName is table 2's name of random: how many positions open is fixed at each step, which ones
// is uniformly random.
const fixedName = "fixed"

// Fixed32 is random with the tokens drawn in 32-bit arithmetic as SDTT and MDLM publish it: the
// argmax over the outcomes of p / (1e-10 - log(u + 1e-10)) with u uniform in float32, 24 bits. It
// is table 2's "Fixed" in 32 bit; in 64 bit that is samplers.Random.
type Fixed32 struct{}

// Needs the logits.
func (Fixed32) Needs(step, steps int) samplers.Need { return samplers.Need{Logits: true} }

// Choose opens Quota random positions.
func (Fixed32) Choose(v *samplers.View) (samplers.Opening, error) {
	o := samplers.Opening{Positions: samplers.Random{}.Rank(v, v.Quota)}
	o.Tokens, o.LogP = v.Tokens32(len(o.Positions)), v.Floats(len(o.Positions))
	err := v.Visit(o.Positions, func(i int, logits []float32) {
		logits = logits[:min(v.Outcomes, len(logits))]
		norm := logSumExp(logits)
		best := float32(-1)
		var words [4]uint32
		for x, l := range logits {
			if x%4 == 0 {
				words = v.Rand.Words(o.Positions[i], philox.Token, x/4)
			}
			u := float32(words[x%4]>>8) / (1 << 24)
			p := float32(math.Exp(float64(l - norm)))
			if p < best*(1-u)*(1-1e-5) { // -log(u) >= 1-u: it cannot win
				continue
			}
			if r := p / (1e-10 - float32(math.Log(float64(u+1e-10)))); r > best {
				best, o.Tokens[i], o.LogP[i] = r, int32(x), float64(l-norm)
			}
		}
	})
	return o, err
}

func logSumExp(logits []float32) float32 {
	top := logits[0]
	for _, l := range logits {
		top = max(top, l)
	}
	var sum float64
	for _, l := range logits {
		sum += math.Exp(float64(l - top))
	}
	return top + float32(math.Log(sum))
}
