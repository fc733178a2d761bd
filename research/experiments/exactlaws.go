package experiments

import "slices"

// ExactLaw is a model whose distribution is known, on which the paper's claims about samplers are
// tried a second time: its marginals are the truth's own, so that what goes wrong is the sampler's
// doing and not a small network's.
type ExactLaw struct {
	// Kind is that of its results.
	Kind string

	// Model is the model and the judge, as --model takes it.
	Model string

	// About says what the law is like.
	About string
}

// ExactLaws are the laws of the report's exact columns.
var ExactLaws = []ExactLaw{
	{
		Kind:  "letters",
		Model: "oracle:letters:length=128",
		About: "a Markov chain of English letters, 27 tokens: what stands at a position depends on its " +
			"nearest open neighbours alone",
	},
	{
		Kind:  "topics",
		Model: "oracle:hmm:length=128,tokens=64,hidden=16,stay=0.95,sharp=4,seed=1",
		About: "a hidden Markov model of 64 tokens whose 16 topics last for 20 positions in the mean: " +
			"many tokens together tell which topic it is",
	},
}

// exactLaw returns the law of a kind of results.
func exactLaw(kind string) (law ExactLaw, ok bool) {
	i := slices.IndexFunc(ExactLaws, func(law ExactLaw) bool { return law.Kind == kind })
	if i < 0 {
		return law, false
	}
	return ExactLaws[i], true
}

// ExactPoints returns the points that are measured on an exact law: those of figures 5 and 6 and of
// table 2 without times and caches, of which an exact law has none, and random with one position a
// step, which draws from the law itself.
func (g Grid) ExactPoints() (points []Point) {
	for _, p := range g.unbiasedMethods() {
		if p.Cache == 0 {
			points = g.addPoints(points, g.Steps, g.Repeats, p)
		}
	}
	for _, p := range g.methodsWithAlphas(temperatureSamplers...) {
		points = g.addPoints(points, g.Steps, 1, p)
	}
	for _, p := range tableSamplers {
		points = g.addPoints(points, g.TableSteps, g.Repeats, p)
	}
	return g.addPoints(points, []int{g.Length}, g.Repeats, Point{Sampler: "random"})
}

// judgeExactClaims calls judge with the verdict on each claim that an exact law decides, in the
// order of figures.
func judgeExactClaims(t Table, g Grid, judge func(Verdict)) {
	judge(t.judgeFollows(g, "moment", followsInEntropy, "5", "entropy"))
	judge(t.judgeEntropyCost(g))
	judge(t.judgeCrossing(g))
	judge(t.judgeThroughout(g))
	judge(t.judgeFollows(g, "moment", followsInPerplexity, "6", "perplexity"))
	judge(t.judgeFollows(g, "temp", temperatureExplains, "6", "perplexity"))
	judge(t.judgeArithmetic(g, "vanilla", arithmeticBiases))
	judge(t.judgeArithmetic(g, fixedName, arithmeticDoesNotBias))
}

// whyNoExactLaw says why a claim has no exact column.
func (v Verdict) whyNoExactLaw() string {
	switch {
	case v.kind == "image":
		return "none: pictures have no known law"
	case v.Figure == "stories":
		return "none: the demo alone writes stories"
	case v.Figure == "4":
		return "none: a law has no keys and values to cache"
	}
	return ""
}
