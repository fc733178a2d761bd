package samplers

import (
	"math"
	"slices"

	"unmask/param"
)

// DPLM is the sampler of the protein models DPLM (Wang et al. 2024, "Diffusion language models are
// versatile protein learners", section 3.2 and the authors' generate.py, whose default is 500
// steps). Each step takes at every position the token with the largest logit plus standard Gumbel
// noise, and scores the position by the log-softmax of that sum. The k positions with the lowest
// scores are masked after the step, whether they were open or not, where k = int(N(1-t/T)) of N
// positions. A masked position that is not among them takes its new token; an open one keeps its
// own.
//
// Where one token makes up more than a share of the new tokens, these places are drawn again from
// the nucleus of their distribution. The authors run the network again for that, with these places
// masked; here the nucleus is that of the step's own logits.
type DPLM struct {
	Noise    float64 // factor of the Gumbel noise; 0 means 1
	Resample float64 // share of one token from which it is drawn again; 0 means 0.25, 1 never
	TopP     float64 // probability of the nucleus; 0 means 0.95
}

var dplmRule = Rule[DPLM]{
	Name:  "dplm",
	Line:  "noised argmax everywhere; the least sure are masked again",
	Paper: "Wang et al. 2024, DPLM",
	Params: []Param[DPLM]{
		Number(func(d *DPLM) *float64 { return &d.Noise },
			param.Param{Name: "noise", Min: 1e-6, Max: 100, Default: "1",
				Help: "factor of the Gumbel noise"}),
		Number(func(d *DPLM) *float64 { return &d.Resample },
			param.Param{Name: "resample", Min: 0.01, Max: 1, Default: "0.25",
				Help: "share of one token from which it is drawn again; 1 never"}),
		Number(func(d *DPLM) *float64 { return &d.TopP },
			param.Param{Name: "top-p", Min: 1e-6, Max: 1, Default: "0.95",
				Help: "probability from which tokens are drawn again"}),
	},
}

// Remasks marks that DPLM closes positions.
func (DPLM) Remasks() {}

// Plan takes all steps; there may be more than positions.
func (DPLM) Plan(steps, free int) (int, error) {
	if steps == 0 {
		steps = free
	}
	return steps, nil
}

// Needs logits of masked and open positions.
func (DPLM) Needs(int, int) Need { return Need{Logits: true, OpenTop: true} }

// hidden returns the number of n positions that are masked after a step.
func (DPLM) hidden(n, step, steps int) int {
	return int(float64(n) * (1 - float64(step)/float64(steps)))
}

// dplmPlace is what a step finds at one position.
type dplmPlace struct {
	token, again int32   // the token with noise, and one from the nucleus
	score        float64 // log-softmax of the noised logits at token
	logP         float64 // log p(token), of the model itself
	logAgain     float64
}

// Choose opens and closes positions.
func (d DPLM) Choose(v *View) (Opening, error) {
	positions := slices.Concat(v.Masked, v.Open)
	slices.Sort(positions)
	places := make([]dplmPlace, len(positions))
	noise, topP := orDefault(d.Noise, 1), orDefault(d.TopP, 0.95)
	err := v.Visit(positions, func(i int, logits []float32) {
		gumbel := func(token int) float64 {
			w := v.Rand.Words(positions[i], ForOrder, token/4)[token%4]
			return noise * Gumbel((float64(w)+0.5)/(1<<32))
		}
		places[i] = dplmDraw(logits[:v.Outcomes], gumbel, topP,
			v.Rand.Uniform(positions[i], ForReorder))
	})
	if err != nil {
		return Opening{}, err
	}
	d.resample(places)
	masked := dplmLowest(places, d.hidden(len(places), v.Step, v.Steps))
	o := Opening{Positions: v.Ints(len(v.Masked))[:0], Tokens: v.Tokens32(len(v.Masked))[:0],
		LogP: v.Floats(len(v.Masked))[:0], Close: v.Ints(len(v.Open))[:0]}
	for i, p := range positions {
		switch open := v.Tokens[p] != v.Mask; {
		case open && masked[i]:
			o.Close = append(o.Close, p)
		case !open && !masked[i]:
			o.Positions = append(o.Positions, p)
			o.Tokens, o.LogP = append(o.Tokens, places[i].token), append(o.LogP, places[i].logP)
		}
	}
	return o, nil
}

// dplmDraw returns what a position's logits and noise give; uniform draws from the nucleus.
func dplmDraw(logits []float32, gumbel func(token int) float64, topP, uniform float64) dplmPlace {
	best, rest := math.Inf(-1), 0.0 // the largest noised logit, and the sum of exp(noised-best)
	noised := make([]float64, len(logits))
	var place dplmPlace
	top := math.Inf(-1)
	for t, l := range logits {
		noised[t] = math.Inf(-1)
		if !math.IsInf(float64(l), -1) {
			noised[t] = float64(l) + gumbel(t)
			top = max(top, float64(l))
		}
		if noised[t] > best {
			best, place.token = noised[t], int32(t)
		}
	}
	sum := 0.0
	for t, l := range logits {
		rest += math.Exp(noised[t] - best)
		sum += math.Exp(float64(l) - top)
	}
	place.score = -math.Log(rest)
	logSum := top + math.Log(sum)
	place.logP = float64(logits[place.token]) - logSum
	place.again = nucleus(logits, logSum, topP, uniform)
	place.logAgain = float64(logits[place.again]) - logSum
	return place
}

// nucleus draws from the most probable tokens that together have the probability topP (Holtzman et
// al. 2020, "The curious case of neural text degeneration").
func nucleus(logits []float32, logSum, topP, uniform float64) int32 {
	order := make([]int32, len(logits))
	for t := range order {
		order[t] = int32(t)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	total, n := 0.0, 0
	for ; n < len(order) && total < topP; n++ {
		total += math.Exp(float64(logits[order[n]]) - logSum)
	}
	left := uniform * total
	for _, t := range order[:n] {
		if left -= math.Exp(float64(logits[t]) - logSum); left < 0 {
			return t
		}
	}
	return order[max(n-1, 0)]
}

// resample replaces the most frequent token where it has more than the share.
func (d DPLM) resample(places []dplmPlace) {
	counts := map[int32]int{}
	frequent := int32(-1)
	for _, p := range places {
		counts[p.token]++
		if n := counts[p.token]; frequent < 0 || n > counts[frequent] ||
			n == counts[frequent] && p.token < frequent {
			frequent = p.token
		}
	}
	if float64(counts[frequent]) <= orDefault(d.Resample, 0.25)*float64(len(places)) {
		return
	}
	for i := range places {
		if p := &places[i]; p.token == frequent {
			p.token, p.logP = p.again, p.logAgain
		}
	}
}

// dplmLowest marks the k places with the lowest scores, the first ones among equals.
func dplmLowest(places []dplmPlace, k int) []bool {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case places[a].score < places[b].score:
			return -1
		case places[a].score > places[b].score:
			return 1
		}
		return 0
	})
	marked := make([]bool, len(places))
	for _, i := range order[:k] {
		marked[i] = true
	}
	return marked
}

// Uncached returns why there can be no second stage.
func (DPLM) Uncached() string { return "dplm draws tokens before it chooses positions" }

// String returns the text that Parse reads.
func (d DPLM) String() string { return Text(d) }
