package experiments

import (
	"fmt"
	"math"
)

// judgeSpeedup compares the time that random needs for the perplexity of hybrid+cache.
func (t Table) judgeSpeedup(g Grid) Verdict {
	v := Verdict{
		Claim:  "Hybrid and cache accelerate by 1.5 to 2",
		Figure: "4",
		Rule: "the time of random for the perplexity that hybrid+cache has, over that of hybrid+cache, " +
			"geometric mean over steps, is above 1.5 (where random never gets there, its longest time " +
			"counts)",
	}
	var inputs []Measure
	var fast, slow []float64 // seconds
	cached := Point{Sampler: "hybrid", Alpha: g.MomentAlpha, Cache: 1}
	random := Point{Sampler: "random"}
	for _, n := range g.Steps {
		inputs = append(inputs, t.metric(cached, n, "perplexity"), t.metric(random, n, "perplexity"))
		fast = append(fast, t.leastSeconds(cached, n))
		slow = append(slow, t.leastSeconds(random, n))
	}
	gain := combine(func(v []float64) float64 {
		var sum float64
		for i := range fast {
			sum += math.Log(timeToReach(v, slow, v[2*i]) / fast[i])
		}
		return math.Exp(sum / float64(len(fast)))
	}, inputs...)
	v.Numbers = []Number{newNumber("acceleration", gain)}
	return v.decide([]test{above(gain, 1.5)}, []test{below(gain, 1.5)})
}

// timeToReach returns the time at which random reaches `want`, by logarithmic interpolation, or its
// first or last time if `want` is outside; random's perplexities are the odd elements of v.
func timeToReach(v, times []float64, want float64) float64 {
	if v[1] <= want {
		return times[0]
	}
	for i := 0; i+1 < len(times); i++ {
		a := v[2*i+1]
		b := v[2*i+3]
		if b <= want {
			w := math.Log(a/want) / math.Log(a/b)
			return times[i] * math.Pow(times[i+1]/times[i], w)
		}
	}
	return times[len(times)-1]
}

// judgeEntropyCost compares samplers with a temperature to random.
func (t Table) judgeEntropyCost(g Grid) Verdict {
	v := Verdict{
		Claim:  "temperature sampling costs entropy",
		Figure: "5",
		Rule: "the entropy of maskgit, moment and temp less that of random, mean over α and steps, is " +
			"below 0 for each",
	}
	var lower, higher []test
	for _, name := range temperatureSamplers {
		var prices []Measure
		for _, alpha := range g.Alphas {
			for _, n := range g.Steps {
				prices = append(prices, combine(subtract,
					t.metric(Point{Sampler: name, Alpha: alpha}, n, "entropy"),
					t.metric(Point{Sampler: "random"}, n, "entropy")))
			}
		}
		m := averageMeasures(prices...)
		lower = append(lower, below(m, 0))
		higher = append(higher, above(m, 0))
		v.Numbers = append(v.Numbers, newNumber("change of entropy, "+name, m))
	}
	return v.decide(lower, higher)
}

// entropyPrice returns the cost of entropy, in log perplexity per nat, when lowering the
// temperature improves perplexity: the ratio of the changes from random to temp, summed over α and
// steps. With it two points of the perplexity-entropy plane can be compared: a lower value of log
// perplexity - entropyPrice * entropy is better than what temperature alone achieves.
func (t Table) entropyPrice(g Grid) Measure {
	var inputs []Measure
	for _, alpha := range g.Alphas {
		for _, n := range g.Steps {
			for _, m := range []Point{{Sampler: "temp", Alpha: alpha}, {Sampler: "random"}} {
				inputs = append(inputs, t.metric(m, n, "perplexity"), t.metric(m, n, "entropy"))
			}
		}
	}
	return combine(func(v []float64) float64 {
		var quality, entropy float64
		for i := 0; i < len(v); i += 4 {
			quality += math.Log(v[i+2]) - math.Log(v[i])
			entropy += v[i+3] - v[i+1]
		}
		return quality / entropy
	}, inputs...)
}

// tradeOffDifference returns the trade-off of a sampler minus that of another at equal steps; below
// 0 it is better.
func (t Table) tradeOffDifference(a, b Point, steps int, price float64) Measure {
	return combine(func(v []float64) float64 {
		return (math.Log(v[0]) - price*v[1]) - (math.Log(v[2]) - price*v[3])
	}, t.metric(a, steps, "perplexity"), t.metric(a, steps, "entropy"),
		t.metric(b, steps, "perplexity"), t.metric(b, steps, "entropy"))
}

const tradeOff = "log perplexity - c*entropy, where c is what temperature sampling pays"

// judgeCrossing compares halton and u-moment at the smallest and the largest number of steps.
func (t Table) judgeCrossing(g Grid) Verdict {
	v := Verdict{
		Claim: "U-Moment and Halton cross: Halton is better with few steps, U-Moment with " +
			"many",
		Figure: "5",
		Rule: "the trade-off (" + tradeOff +
			") of halton less that of u-moment is below 0 at the fewest steps and above 0 at the most",
	}
	halton := Point{Sampler: "halton"}
	moment := Point{Sampler: "u-moment", Alpha: g.MomentAlpha}
	price := t.entropyPrice(g)
	v.Numbers = append(v.Numbers, newNumber("c", price))
	var ends []Measure
	for _, n := range g.Steps {
		m := t.tradeOffDifference(halton, moment, n, price.Value)
		v.Numbers = append(v.Numbers, newNumber(fmt.Sprintf("halton less u-moment, %d steps", n), m))
		ends = append(ends, m)
	}
	few := ends[0]
	many := ends[len(ends)-1]
	return v.decide([]test{below(few, 0), above(many, 0)}, []test{above(few, 0), below(many, 0)})
}

// judgeThroughout compares hybrid and random at all numbers of steps.
func (t Table) judgeThroughout(g Grid) Verdict {
	v := Verdict{
		Claim:  "Hybrid is better than Random throughout",
		Figure: "5",
		Rule: "the trade-off (" + tradeOff +
			") of hybrid less that of random is below 0 at every number of steps, and its mean is beyond " +
			"chance",
	}
	hybrid := Point{Sampler: "hybrid", Alpha: g.MomentAlpha}
	random := Point{Sampler: "random"}
	price := t.entropyPrice(g).Value
	var measures []Measure
	allBelow := true
	var worse []test
	for _, n := range g.Steps {
		m := t.tradeOffDifference(hybrid, random, n, price)
		v.Numbers = append(v.Numbers, newNumber(fmt.Sprintf("hybrid less random, %d steps", n), m))
		measures = append(measures, m)
		allBelow = allBelow && m.Value < 0
		worse = append(worse, above(m, 0))
	}
	mean := averageMeasures(measures...)
	v.Numbers = append(v.Numbers, newNumber("mean", mean))
	better := []test{below(mean, 0)}
	if !allBelow {
		better = nil
	}
	return v.decide(better, append(worse, above(mean, 0)))
}

// judgeContradictions compares the contradictions of two samplers at all steps.
func (t Table) judgeContradictions(g Grid, a, b Point, claim string) Verdict {
	v := Verdict{
		Claim:  claim,
		Figure: "stories",
		Rule: fmt.Sprintf("contradictions of %s less those of %s, mean over steps, are below 0",
			a.Sampler, b.Sampler),
	}
	var measures []Measure
	for _, n := range g.Steps {
		m := combine(subtract, t.metric(a, n, "contradictions"), t.metric(b, n, "contradictions"))
		v.Numbers = append(v.Numbers, newNumber(fmt.Sprintf("%s less %s, %d steps", a.Sampler, b.Sampler,
			n), m))
		measures = append(measures, m)
	}
	return v.judgeBelow("mean", measures)
}

// judgeArithmetic compares arithmetic in 32 bits with 64, at the most steps of table 2.
func (t Table) judgeArithmetic(g Grid, sampler, claim string) Verdict {
	n := g.TableSteps[len(g.TableSteps)-1]
	low := Point{Sampler: sampler, Bits: 32}
	high := Point{Sampler: sampler, Bits: 64}
	if sampler == fixedName {
		high = Point{Sampler: "random"}
	}
	quality := combine(logRatio, t.metric(low, n, "perplexity"), t.metric(high, n, "perplexity"))
	entropy := combine(subtract, t.metric(low, n, "entropy"), t.metric(high, n, "entropy"))
	v := Verdict{
		Claim:  claim,
		Figure: "table 2",
		Numbers: []Number{
			newNumber(fmt.Sprintf("change of log perplexity, %d steps", n), quality),
			newNumber(fmt.Sprintf("change of entropy, %d steps", n), entropy),
		},
	}
	if sampler == fixedName {
		v.Rule = fmt.Sprintf("at the most steps, 32 bit changes log perplexity by less than %g and entropy by "+
			"less than %g: half of what it takes from Vanilla in the paper's table 2, at 128 steps",
			qualityMargin, entropyMargin)
		claimed := append(within(quality, 0, qualityMargin), within(entropy, 0, entropyMargin)...)
		against := append(outside(quality, 0, qualityMargin), outside(entropy, 0, entropyMargin)...)
		return v.decideEqual(claimed, against)
	}
	v.Rule = fmt.Sprintf("at the most steps, 32 bit lowers both log perplexity and entropy beyond chance; "+
		"it does not hold, too, if two one-sided tests find them changed by less than %g and %g",
		qualityMargin, entropyMargin)
	v = v.decide([]test{below(quality, 0), below(entropy, 0)},
		[]test{above(quality, 0), above(entropy, 0)})
	if v.Decided {
		return v
	}
	same := append(within(quality, 0, qualityMargin), within(entropy, 0, entropyMargin)...)
	v.Decided = v.decideEqual(same, nil).Holds
	return v
}

// The margins within which 32-bit arithmetic counts as the same: half of what it takes from Vanilla
// in the paper's table 2, log(33.80/27.63) = 0.20 of log perplexity and 0.11 nats of entropy.
const (
	qualityMargin = 0.1
	entropyMargin = 0.055
)
