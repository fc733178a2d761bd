package experiments

import (
	"math"
	"slices"

	"unmask/internal/philox"
	"unmask/internal/race"
	"unmask/samplers"
)

// fixedName is table 2's name of random: each step opens a fixed number of positions, chosen
// uniformly.
const fixedName = "fixed"

// Fixed is random with tokens drawn in 32 bits, as SDTT and MDLM publish it: the argmax over the
// outcomes of p / (1e-10 - log(u + 1e-10)) with u uniform in float32, 24 bits. It is "Fixed" in
// table 2. In 64 bits it equals samplers.Random.
type Fixed struct {
	Bits int `param:"bits 32|64 =64" help:"of the arithmetic: 32 as published, or 64"`
}

func init() {
	samplers.Register(samplers.Rule{
		Prototype: Fixed{},
		Name:      fixedName,
		Line:      "random, with tokens drawn as vanilla draws them",
		Paper:     "Hayakawa et al. 2025, table 2",
	})
}

// Needs the logits in 32 bits, nothing in 64.
func (f Fixed) Needs(step, steps int) samplers.Need { return samplers.Need{Logits: f.Bits == 32} }

// CacheRefusal says that tokens drawn in 32 bits cannot wait for a second stage.
func (f Fixed) CacheRefusal() string {
	if f.Bits == 32 {
		return "fixed(bits=32) draws tokens itself"
	}
	return ""
}

// Choose opens Quota random positions.
func (f Fixed) Choose(v *samplers.View) (samplers.Opening, error) {
	o := samplers.Opening{Positions: samplers.Random{}.Rank(v, v.Quota)}
	if f.Bits != 32 {
		return o, nil
	}
	o.Tokens, o.LogP = v.Tokens32(len(o.Positions)), v.Floats(len(o.Positions))
	err := v.Visit(o.Positions, func(i int, logits []float32) {
		logits = logits[:min(v.Outcomes, len(logits))]
		norm := logSumExp(logits)
		token, _ := race.Winner(philox.Stream(v.Rand), o.Positions[i], logits, norm, 1, -1)
		o.Tokens[i] = int32(token)
		o.LogP[i] = float64(logits[token] - norm)
	})
	return o, err
}

// String returns the text that samplers.Parse reads.
func (f Fixed) String() string { return samplers.Text(f) }

// logSumExp returns the logarithm of the sum of exponentials, less the largest so that none
// overflows.
func logSumExp(logits []float32) float32 {
	top := slices.Max(logits)
	var sum float64
	for _, l := range logits {
		sum += math.Exp(float64(l - top))
	}
	return top + float32(math.Log(sum))
}
