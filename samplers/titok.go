package samplers

import "math"

// TiTok is the loop of TiTok and MaskGen (Yu et al. 2024, 1d-tokenizer, modeling/maskgit.py). It
// draws a token at every masked position by adding t*Gumbel noise to the logits, and keeps the
// tokens with the largest logit plus t times a second noise. t falls linearly from Noise to 0. With
// annealing, logits are divided by a temperature that falls from about 1.3 to 0.5.
//
// The confidence is the logit, not the probability. Among equal ones the authors' program leaves
// all masked; this rule keeps the schedule's number.
type TiTok struct {
	// Noise is randomize_temperature of the authors.
	Noise  float64 `param:"noise 1e-6..1e6 =2" help:"Gumbel noise on the logits at first, falling to 0"`
	Anneal string  `param:"anneal on|off" help:"divide logits by 0.5 to 1.3, less and less: on or off"`
	Tokens string  `param:"tokens drawn|likeliest" help:"drawn, or likeliest for no noise at all"`
}

// temperatures returns those of the noise and of the logits.
func (t TiTok) temperatures(step, steps int) (noise, logits float64) {
	left := 1 - float64(step)/float64(steps)
	if t.Tokens != likeliest {
		noise = WithDefaults(t).Noise * left
	}
	if t.Anneal == "off" {
		return noise, 1
	}
	return noise, 0.5 + 0.8*left
}

// Needs a token at every masked position, without noise the most probable one.
func (t TiTok) Needs(step, steps int) Need {
	noise, logits := t.temperatures(step, steps)
	if noise == 0 {
		return Need{Top: true, LogSum: true}
	}
	// The argmax of logits/a + t*Gumbel is a draw from p^(1/(a*t)).
	return Need{Draw: true, Power: 1 / (noise * logits), LogSum: true}
}

// Choose keeps the schedule's number of tokens.
func (t TiTok) Choose(v *View) (Opening, error) {
	noise, logits := t.temperatures(v.Step, v.Steps)
	if noise == 0 {
		largest := v.Top(v.Quota, func(i int) float64 { return math.Log(v.P1[i]) + v.LogSum[i] })
		return v.candidates(0).open(largest), nil
	}
	score := func(i int) float64 {
		return (v.LogP[i]+v.LogSum[i])/logits + noise*v.Gumbel(i)
	}
	o := Opening{Positions: v.Top(v.Quota, score)}
	v.setDrawnTokens(&o)
	return o, nil
}
