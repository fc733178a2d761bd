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
func (DPLM) Plan(steps, free int) (int, error) { return cmp.Or(steps, free), nil }

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
	d = WithDefaults(d)
	positions := slices.Concat(v.Masked, v.Open)
	slices.Sort(positions)
	draws := make([]dplmDraw, len(positions))
	err := v.Visit(positions, func(i int, logits []float32) {
		draws[i] = newDPLMDraw(logits[:v.Outcomes], 1, d.noiseAt(v, positions[i], ForOrder))
	})
	if err != nil {
		return Opening{}, err
	}
	for i := range draws {
		if logP := draws[i].logP; math.IsNaN(logP) || math.IsInf(logP, 0) {
			return Opening{}, fmt.Errorf("position %d has no token with a probability", positions[i])
		}
	}

	frequent := d.frequentDraws(draws)
	if len(frequent) == 0 {
		return d.opening(v, positions, draws), nil
	}
	second := &Second{Tokens: slices.Clone(v.Tokens)}
	for i, p := range positions {
		second.Tokens[p] = draws[i].token
	}
	masked := make([]int, len(frequent))
	for j, i := range frequent {
		masked[j] = positions[i]
		second.Tokens[masked[j]] = v.Mask
	}
	second.Choose = func(v *View) (Opening, error) {
		err := v.Visit(masked, func(j int, logits []float32) {
			draws[frequent[j]] = newDPLMDraw(logits[:v.Outcomes], d.TopP,
				d.noiseAt(v, masked[j], ForReorder))
		})
		return d.opening(v, positions, draws), err
	}
	return Opening{Second: second}, nil
}

// noiseAt returns the Gumbel noise of each token at a position. d has its defaults filled in.
func (d DPLM) noiseAt(v *View, position int, use Use) func(token int) float64 {
	return func(token int) float64 {
		word := v.Rand.Words(position, use, token/4)[token%4]
		return d.Noise * Gumbel((float64(word)+0.5)/(1<<32))
	}
}

// newDPLMDraw draws from the nucleus of logits, all of them with a topP of 1.
func newDPLMDraw(logits []float32, topP float64, noise func(token int) float64) (d dplmDraw) {
	top := float64(slices.Max(logits))
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	logP := func(t int) float64 { return float64(logits[t]) - top - math.Log(sum) }

	inNucleus := markNucleus(len(logits), topP, logP)
	noised := make([]float64, len(logits))
	best := math.Inf(-1)
	for t, l := range logits {
		noised[t] = math.Inf(-1)
		if inNucleus[t] && !math.IsInf(float64(l), -1) {
			noised[t] = float64(l) + noise(t)
		}
		if noised[t] > best {
			best = noised[t]
			d.token = int32(t)
		}
	}

	noisedSum := 0.0
	for _, x := range noised {
		noisedSum += math.Exp(x - best)
	}
	d.score = -math.Log(noisedSum)
	d.logP = logP(int(d.token))
	return d
}

// markNucleus marks the most probable of n tokens that together have more than the probability topP
// (Holtzman et al. 2020, "The curious case of neural text degeneration").
func markNucleus(n int, topP float64, logP func(token int) float64) []bool {
	if topP >= 1 {
		return slices.Repeat([]bool{true}, n)
	}
	marked := make([]bool, n)
	total := 0.0
	for _, t := range rankAscending(n, func(t int) float64 { return -logP(t) }) {
		marked[t] = total <= topP
		total += math.Exp(logP(t))
	}
	return marked
}

// frequentDraws returns the indexes of draws whose tokens make up more than the share Resample
// each. d has its defaults filled in.
func (d DPLM) frequentDraws(draws []dplmDraw) (indexes []int) {
	counts := map[int32]int{}
	for _, draw := range draws {
		counts[draw.token]++
	}
	for i, draw := range draws {
		if float64(counts[draw.token]) > d.Resample*float64(len(draws)) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// opening masks the positions with the lowest scores and opens the others.
func (d DPLM) opening(v *View, positions []int, draws []dplmDraw) Opening {
	hidden := int(float64(len(draws)) * (1 - float64(v.Step)/float64(v.Steps)))
	masked := markLowest(draws, hidden)
	o := Opening{
		Positions: v.Ints(len(v.Masked))[:0],
		Tokens:    v.Tokens32(len(v.Masked))[:0],
		LogP:      v.Floats(len(v.Masked))[:0],
		Close:     v.Ints(len(v.Open))[:0],
	}
	for i, p := range positions {
		isOpen := v.Tokens[p] != v.Mask
		switch {
		case isOpen && masked[i]:
			o.Close = append(o.Close, p)
		case !isOpen && !masked[i]:
			o.Positions = append(o.Positions, p)
			o.Tokens = append(o.Tokens, draws[i].token)
			o.LogP = append(o.LogP, draws[i].logP)
		}
	}
	return o
}

// markLowest marks the k draws with the lowest scores, the first ones among equals.
func markLowest(draws []dplmDraw, k int) []bool {
	marked := make([]bool, len(draws))
	ranked := rankAscending(len(draws), func(i int) float64 { return draws[i].score })
	for _, i := range ranked[:k] {
		marked[i] = true
	}
	return marked
}

// rankAscending returns the indexes 0..n-1 by ascending score, the lowest first among equals.
func rankAscending(n int, score func(i int) float64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score(a), score(b)) })
	return order
}
