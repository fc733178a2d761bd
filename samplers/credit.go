package samplers

import (
	"cmp"
	"math"

	"unmask/param"
)

// Credit opens what is probable enough once tokens that were the most probable ones in earlier
// passes have credit (Wang et al. 2025, "CreditDecoding", arXiv 2510.06133; as in dInfer's
// CreditThresholdParallelDecoder). Each pass a masked position's most probable token gains p^Gamma,
// after all credit has decayed by Beta; logits are raised by Alpha*log(1+credit), and tokens and
// their probabilities are read from these. Only tokens that were the most probable ones once have
// credit, so there is a short list for each position.
type Credit struct {
	Theta float64 // 0 means 0.8
	Alpha float64 // 0 means 0.7
	Gamma float64 // 0 means 0.2
	Beta  float64 // 0 means 0.8
	ownPace
}

var creditRule = Rule[Credit]{
	Name:  "credit",
	Line:  "all that are confident enough, with credit for earlier passes",
	Paper: "Wang et al. 2025, CreditDecoding",
	Params: []Param[Credit]{
		Number(func(c *Credit) *float64 { return &c.Theta },
			param.Param{Name: "theta", Min: 1e-9, Max: 1, Default: "0.8",
				Help: "probability that is enough, with credit"}),
		Number(func(c *Credit) *float64 { return &c.Alpha },
			param.Param{Name: "weight", Min: 1e-9, Max: 1e3, Default: "0.7",
				Help: "factor of log(1+credit), which is added to logits"}),
		Number(func(c *Credit) *float64 { return &c.Gamma },
			param.Param{Name: "power", Min: 1e-9, Max: 1e3, Default: "0.2",
				Help: "a pass gives a credit of p to this power"}),
		Number(func(c *Credit) *float64 { return &c.Beta },
			param.Param{Name: "decay", Min: 1e-9, Max: 1, Default: "0.8",
				Help: "factor of all credit from pass to pass"}),
	},
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

// Tempered refuses every temperature but 0.
func (c Credit) Tempered(temperature float64) (any, float64, error) {
	return only0(c, "credit", temperature)
}

// Uncached returns why there can be no second stage.
func (Credit) Uncached() string { return "credit has the tokens before a second stage could" }
