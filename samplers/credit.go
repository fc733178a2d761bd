package samplers

import "math"

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

// tokenCredit is the credit of a token at a position.
type tokenCredit struct {
	token  int32
	credit float64
}

// creditSlack is how far below the best probability others still open with it: it makes positions
// whose probabilities are equal but for rounding open together.
const creditSlack = 1e-5

// NewState returns lists of credit for each position, all empty.
func (Credit) NewState(length int) any { return make([][]tokenCredit, length) }

// Needs the most probable tokens and logits.
func (Credit) Needs(int, int) Need { return Need{Top: true, LogSum: true, Logits: true} }

// Choose opens the confident positions, the most confident first.
func (c Credit) Choose(v *View) (Opening, error) {
	c = WithDefaults(c)
	credits := v.State.([][]tokenCredit)
	n := len(v.Masked)
	token := v.Tokens32(n)
	p := v.Floats(n)    // with credit
	logP := v.Floats(n) // without
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		list := &credits[v.Masked[i]]
		c.addCredit(list, v.Arg[i], v.P1[i])
		token[i], p[i] = c.topWithCredit(*list, logits, v.LogSum[i])
		logP[i] = float64(logits[token[i]]) - v.LogSum[i]
	})
	if err != nil {
		return Opening{}, err
	}
	if n == 0 {
		return Opening{}, nil
	}

	ranked := v.Top(n, func(i int) float64 { return p[i] })
	bound := min(c.Theta, p[v.Index(ranked[0])]-creditSlack)
	confident := v.firstWhile(ranked, 1, func(i int) bool { return p[i] >= bound })

	// The tokens are reported with the model's own probabilities, as other rules report theirs.
	opened := candidates{v: v, token: token, p: func(i int) float64 { return math.Exp(logP[i]) }}
	return opened.open(confident), nil
}

// addCredit lets a position's credit decay and gives some to its most probable token. c has its
// defaults filled in.
func (c Credit) addCredit(list *[]tokenCredit, token int32, p float64) {
	index := -1
	for i := range *list {
		(*list)[i].credit *= c.Beta
		if (*list)[i].token == token {
			index = i
		}
	}
	if index < 0 {
		index = len(*list)
		*list = append(*list, tokenCredit{token: token})
	}
	(*list)[index].credit += math.Pow(p, c.Gamma)
}

// topWithCredit returns the most probable token after credit raised the logits, and its
// probability. Only tokens with credit can be it, because the most probable token of this pass has
// some. c has its defaults filled in.
func (c Credit) topWithCredit(list []tokenCredit, logits []float32, logSum float64) (token int32,
	p float64) {
	best := math.Inf(-1)
	sum := 1.0
	for _, entry := range list {
		logP := float64(logits[entry.token]) - logSum
		raise := c.Alpha * math.Log1p(entry.credit)
		sum += math.Exp(logP) * math.Expm1(raise)
		if x := logP + raise; x > best || x == best && entry.token < token {
			best = x
			token = entry.token
		}
	}
	return token, math.Exp(best) / sum
}
