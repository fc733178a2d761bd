package samplers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// DPLM is the sampler of the protein models DPLM (Wang et al. 2024, "Diffusion language models are
// versatile protein learners", section 3.2, and the authors' src/byprot/models/dplm/dplm.py, with
// 500 steps by default). Each step takes at every position the token with the largest logit plus
// standard Gumbel noise, and scores the position by the log-softmax of that sum. The k positions
// with the lowest scores are masked after the step, whether they were open or not, where k =
// int(N(1-t/T)) of N positions. A masked position that is not among them takes its new token; an
// open one keeps its own.
//
// Tokens that make up more than a share of the new ones each are masked among these and drawn once
// more, with scores, from the nucleus of a second pass. Known positions stay as they are in it; the
// authors' program has its predictions there too.
type DPLM struct {
	Noise    float64 `param:"noise 1e-6..100 =1" help:"factor of the Gumbel noise"`
	Resample float64 `param:"resample 0.01..1 =0.25" help:"share of one token from which it is drawn again; 1 never"`
	TopP     float64 `param:"top-p 1e-6..1 =0.95" help:"probability from which tokens are drawn again"`
}

// Remasks marks that DPLM closes positions.
func (DPLM) Remasks() {}

// Plan takes all steps; there may be more than positions.
func (DPLM) Plan(steps, free int) (int, error) {
	steps = cmp.Or(steps, free)
	return steps, nil
}

// Needs logits of masked and open positions.
func (DPLM) Needs(int, int) Need { return Need{Logits: true} }

// dplmDraw is what is drawn at one position.
type dplmDraw struct {
	token int32   // with the largest noised logit
	score float64 // log-softmax of the noised logits at token
	logP  float64 // log p(token), without noise
}

// Choose opens and closes positions, or asks for a second pass.
func (d DPLM) Choose(v *View) (Opening, error) {
	positions := slices.Concat(v.Masked, v.Open)
	slices.Sort(positions)
	draws := make([]dplmDraw, len(positions))
	err := v.Visit(positions, func(i int, logits []float32) {
		draws[i] = newDPLMDraw(logits[:v.Outcomes], 1, d.noise(v, positions[i], ForOrder))
	})
	for i := range draws {
		if logP := draws[i].logP; err == nil && (math.IsNaN(logP) || math.IsInf(logP, 0)) {
			err = fmt.Errorf("position %d has no token with a probability", positions[i])
		}
	}
	if err != nil {
		return Opening{}, err
	}
	again := d.frequent(draws)
	if len(again) == 0 {
		return d.opening(v, positions, draws), nil
	}
	second := &Second{Tokens: slices.Clone(v.Tokens)}
	for i, p := range positions {
		second.Tokens[p] = draws[i].token
	}
	masked := make([]int, len(again))
	for j, i := range again {
		masked[j] = positions[i]
		second.Tokens[masked[j]] = v.Mask
	}
	second.Choose = func(v *View) (Opening, error) {
		err := v.Visit(masked, func(j int, logits []float32) {
			draws[again[j]] = newDPLMDraw(logits[:v.Outcomes], cmp.Or(d.TopP, 0.95),
				d.noise(v, masked[j], ForReorder))
		})
		return d.opening(v, positions, draws), err
	}
	return Opening{Second: second}, nil
}

// noise returns the Gumbel noise of each token at a position.
func (d DPLM) noise(v *View, position int, use Use) func(token int) float64 {
	return func(token int) float64 {
		w := v.Rand.Words(position, use, token/4)[token%4]
		return cmp.Or(d.Noise, 1) * Gumbel((float64(w)+0.5)/(1<<32))
	}
}

// newDPLMDraw draws from the nucleus of logits, all of them with a topP of 1.
func newDPLMDraw(logits []float32, topP float64, noise func(token int) float64) (d dplmDraw) {
	top, sum := float64(slices.Max(logits)), 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	logP := func(t int) float64 { return float64(logits[t]) - top - math.Log(sum) }
	kept := nucleus(len(logits), topP, logP)
	noised := make([]float64, len(logits))
	best := math.Inf(-1)
	for t, l := range logits {
		noised[t] = math.Inf(-1)
		if kept[t] && !math.IsInf(float64(l), -1) {
			noised[t] = float64(l) + noise(t)
		}
		if noised[t] > best {
			best, d.token = noised[t], int32(t)
		}
	}
	noisedSum := 0.0
	for _, x := range noised {
		noisedSum += math.Exp(x - best)
	}
	d.score, d.logP = -math.Log(noisedSum), logP(int(d.token))
	return d
}

// nucleus marks the most probable of n tokens that together have more than the probability topP
// (Holtzman et al. 2020, "The curious case of neural text degeneration").
func nucleus(n int, topP float64, logP func(token int) float64) []bool {
	if topP >= 1 {
		return slices.Repeat([]bool{true}, n)
	}
	kept, total := make([]bool, n), 0.0
	for _, t := range ranking(n, func(t int) float64 { return -logP(t) }) {
		kept[t] = total <= topP
		total += math.Exp(logP(t))
	}
	return kept
}

// frequent returns the indexes of draws whose tokens make up more than the share each.
func (d DPLM) frequent(draws []dplmDraw) (again []int) {
	counts := map[int32]int{}
	for _, one := range draws {
		counts[one.token]++
	}
	for i, one := range draws {
		if float64(counts[one.token]) > cmp.Or(d.Resample, 0.25)*float64(len(draws)) {
			again = append(again, i)
		}
	}
	return again
}

// opening masks the positions with the lowest scores and opens the others.
func (d DPLM) opening(v *View, positions []int, draws []dplmDraw) Opening {
	hidden := int(float64(len(draws)) * (1 - float64(v.Step)/float64(v.Steps)))
	masked := dplmLowest(draws, hidden)
	o := Opening{Positions: v.Ints(len(v.Masked))[:0], Tokens: v.Tokens32(len(v.Masked))[:0],
		LogP: v.Floats(len(v.Masked))[:0], Close: v.Ints(len(v.Open))[:0]}
	for i, p := range positions {
		switch open := v.Tokens[p] != v.Mask; {
		case open && masked[i]:
			o.Close = append(o.Close, p)
		case !open && !masked[i]:
			o.Positions = append(o.Positions, p)
			o.Tokens, o.LogP = append(o.Tokens, draws[i].token), append(o.LogP, draws[i].logP)
		}
	}
	return o
}

// dplmLowest marks the k draws with the lowest scores, the first ones among equals.
func dplmLowest(draws []dplmDraw, k int) []bool {
	marked := make([]bool, len(draws))
	for _, i := range ranking(len(draws), func(i int) float64 { return draws[i].score })[:k] {
		marked[i] = true
	}
	return marked
}

// ranking returns the indexes 0..n-1 by ascending score, the lowest first among equals.
func ranking(n int, score func(i int) float64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score(a), score(b)) })
	return order
}
