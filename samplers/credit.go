package samplers

import (
	"cmp"
	"math"
)

// Credit opens what is probable enough once tokens that were the most probable ones in earlier
// passes have credit (Wang et al. 2025, "CreditDecoding", arXiv 2510.06133; as in dInfer's
// CreditThresholdParallelDecoder). Each pass a masked position's most probable token gains p^Gamma,
// after all credit has decayed by Beta; logits are raised by Alpha*log(1+credit), and tokens and
// their probabilities are read from these. Only tokens that were the most probable ones once have
// credit, so there is a short list for each position.
type Credit struct {
	Theta float64 `param:"theta 1e-9..1 =0.8" help:"probability that is enough, with credit"`
	Alpha float64 `param:"weight 1e-9..1e3 =0.7" help:"factor of log(1+credit), which is added to logits"`
	Gamma float64 `param:"power 1e-9..1e3 =0.2" help:"a pass gives a credit of p to this power"`
	Beta  float64 `param:"decay 1e-9..1 =0.8" help:"factor of all credit from pass to pass"`
	ownPace
}

// credited is the credit of a token at a position.
type credited struct {
	token  int32
	credit float64
}

// NewState returns lists of credit for each position, all empty.
func (Credit) NewState(length int) any { return make([][]credited, length) }

// Needs the most probable tokens and logits.
func (Credit) Needs(int, int) Need { return Need{Top: true, LogSum: true, Logits: true} }

// Choose opens the confident positions, the most confident first.
func (c Credit) Choose(v *View) (Opening, error) {
	all := v.State.([][]credited)
	n := len(v.Masked)
	token, p, logP := v.Tokens32(n), v.Floats(n), v.Floats(n) // p with credit, logP without
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		list := &all[v.Masked[i]]
		c.gain(list, v.Arg[i], v.P1[i])
		token[i], p[i] = c.fused(*list, logits, v.LogSum[i])
		logP[i] = float64(logits[token[i]]) - v.LogSum[i]
	})
	if err != nil {
		return Opening{}, err
	}
	if n == 0 {
		return Opening{}, nil
	}
	ranked := v.Top(n, func(i int) float64 { return p[i] })
	bound := min(cmp.Or(c.Theta, 0.8), p[v.Index(ranked[0])]-1e-5)
	plain := candidates{v: v, token: token, p: func(i int) float64 { return math.Exp(logP[i]) }}
	return plain.open(v.first(ranked, 1, func(i int) bool { return p[i] >= bound })), nil
}

// gain lets a position's credit decay and gives some to its most probable token.
func (c Credit) gain(list *[]credited, token int32, p float64) {
	at := -1
	for i := range *list {
		(*list)[i].credit *= cmp.Or(c.Beta, 0.8)
		if (*list)[i].token == token {
			at = i
		}
	}
	if at < 0 {
		at, *list = len(*list), append(*list, credited{token: token})
	}
	(*list)[at].credit += math.Pow(p, cmp.Or(c.Gamma, 0.2))
}

// fused returns the most probable token with credit, which has some, and its probability.
func (c Credit) fused(list []credited, logits []float32, logSum float64) (token int32, p float64) {
	best, sum := math.Inf(-1), 1.0
	for _, one := range list {
		logP, raise := float64(logits[one.token])-logSum, cmp.Or(c.Alpha, 0.7)*math.Log1p(one.credit)
		sum += math.Exp(logP) * math.Expm1(raise)
		if x := logP + raise; x > best || x == best && one.token < token {
			best, token = x, one.token
		}
	}
	return token, math.Exp(best) / sum
}
