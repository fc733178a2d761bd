package experiments

import (
	"math"

	"unmask/internal/philox"
	"unmask/internal/race"
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
		token, _ := race.Winner(philox.Stream(v.Rand), o.Positions[i], logits, norm, 1, -1)
		o.Tokens[i], o.LogP[i] = int32(token), float64(logits[token]-norm)
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
