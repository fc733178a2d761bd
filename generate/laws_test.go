package generate_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/research/theory"
)

// A published run has a law: the probability of each text, given what the network predicts. The
// tests of this file work it out by going through every draw of every step, as the authors' program
// makes them, and compare a count of unmask's texts with it. A greedy run cannot show what a
// program draws, and in which order: at temperature 0 several rules are one.

// law adds the probability of each outcome of a step. p has the marginals at all positions, open
// ones without their own token; add is called with the sequence after the step, which it copies.
type law func(p [][]float64, x []int32, step int, add func(after []int32, probability float64))

// enumerateLaw returns the probability of each text by its index, as theory.Joint orders them.
func enumerateLaw(m *exact.Model, steps int, next law) []float64 {
	length := m.Length()
	start := slices.Repeat([]int32{int32(m.Tokens())}, length)
	now := map[string]float64{string(runesOf(start)): 1}
	flat := make([]float64, length*m.Tokens())
	for step := 1; step <= steps; step++ {
		later := map[string]float64{}
		for key, weight := range now {
			x := tokensOf(key)
			m.Conditionals(flat, x)
			p := make([][]float64, length)
			for i := range p {
				p[i] = flat[i*m.Tokens() : (i+1)*m.Tokens()]
			}
			next(p, x, step, func(after []int32, probability float64) {
				later[string(runesOf(after))] += weight * probability
			})
		}
		now = later
	}

	joint := make([]float64, len(theory.Joint(m)))
	for key, weight := range now {
		index := 0
		for _, token := range tokensOf(key) {
			index = index*m.Tokens() + int(token)
		}
		joint[index] += weight
	}
	return joint
}

func runesOf(x []int32) (runes []rune) { return append(runes, x...) }

func tokensOf(key string) (x []int32) { return append(x, []rune(key)...) }

// tempered returns p^(1/temperature) of the topK likeliest tokens, 0 for all, that together reach
// topP, 1 for all; normalised, in the order in which the authors' programs filter.
func tempered(p []float64, temperature float64, topK int, topP float64) []float64 {
	q := make([]float64, len(p))
	for i, v := range p {
		q[i] = math.Pow(v, 1/temperature)
	}
	scaleToOne(q)
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if q[a] > q[b] {
			return -1
		}
		return 1
	})
	before := 0.0
	filtered := make([]float64, len(p))
	for rank, token := range order {
		if topK > 0 && rank >= topK || before > topP {
			break
		}
		filtered[token] = q[token]
		before += q[token]
	}
	scaleToOne(filtered)
	return filtered
}

func scaleToOne(p []float64) {
	sum := 0.0
	for _, v := range p {
		sum += v
	}
	for i := range p {
		p[i] /= sum
	}
}

// eachDraw visits every way to draw a token from each distribution of q, with its probability.
func eachDraw(q [][]float64, visit func(drawn []int32, probability float64)) {
	drawn := make([]int32, len(q))
	var draw func(i int, probability float64)
	draw = func(i int, probability float64) {
		if probability == 0 {
			return
		}
		if i == len(q) {
			visit(drawn, probability)
			return
		}
		for token, v := range q[i] {
			drawn[i] = int32(token)
			draw(i+1, probability*v)
		}
	}
	draw(0, 1)
}

// highest returns the n indexes of the largest scores, the first among equals.
func highest(scores []float64, n int) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	return order[:n]
}

// openDcoderLaw is a step of _mdm_sample of Open-dCoder's generation_utils.py with alg p2: a token
// is drawn at every position from the tempered, filtered distribution, the positions of the least
// probable draws are masked, and the masked ones among the others get what was drawn.
func openDcoderLaw(mask int32, steps int, temperature float64, topK int) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		q := make([][]float64, len(p))
		for i := range p {
			q[i] = tempered(p[i], temperature, topK, 1)
		}
		masked := int(float64(len(x)) * (1 - float64(step)/float64(steps)))
		eachDraw(q, func(drawn []int32, probability float64) {
			confidence := make([]float64, len(x))
			for i, token := range drawn {
				confidence[i] = q[i][token]
			}
			after := slices.Repeat([]int32{mask}, len(x))
			for _, i := range highest(confidence, len(x)-masked) {
				after[i] = x[i]
				if x[i] == mask {
					after[i] = drawn[i]
				}
			}
			add(after, probability)
		})
	}
}

// lawRatio counts n texts of a recipe and compares the counts with the probabilities of a law: the
// result is below 1 where they agree.
func lawRatio(t *testing.T, m *exact.Model, recipe string, n int, want []float64) float64 {
	r, err := generate.ParseRecipe(recipe)
	require.NoError(t, err)
	o := generate.Options{Request: generate.Request{Recipe: r, Seed: 7}}
	return chiSquare(counts(t, m, o, n), theory.Scale(want, float64(n)))
}

// Open-dCoder ranks open positions by fresh draws. The rules by=tokens and by=likeliest, which
// equal it at temperature 0, are other laws.
func TestOpenDcoderDrawsItsAuthorsLaw(t *testing.T) {
	for _, c := range []struct {
		model       string
		steps       int
		temperature float64
		topK        int
		filter      string
	}{
		{"hmm:length=3,tokens=6,hidden=3", 3, 0.5, 5, " temperature=0.5 top-k=5"},
		{"hmm:length=4,tokens=4,hidden=3,seed=5", 3, 1, 0, ""},
		{"hmm:length=4,tokens=4,hidden=3,seed=9", 2, 1, 0, ""},
	} {
		m := exactModel(t, c.model)
		want := enumerateLaw(m, c.steps,
			openDcoderLaw(int32(m.Tokens()), c.steps, c.temperature, c.topK))
		rest := " schedule=floor steps=" + string(rune('0'+c.steps)) + c.filter
		require.Less(t, lawRatio(t, m, "p2(by=draws)"+rest, 4000, want), 1.0, c.model)
		require.Greater(t, lawRatio(t, m, "p2(by=likeliest)"+rest, 4000, want), 1.5, c.model)
		if c.steps > 2 { // in two steps the paper's rule is the same: nothing is open before the first
			require.Greater(t, lawRatio(t, m, "p2"+rest, 4000, want), 1.5, c.model)
		}
	}
}

// entropyLaw is a step of the programs of RND1 (diffusion_sample of rnd/sampling.py) and Dream
// (_sample of generation_utils.py with alg entropy): the masked positions whose tempered, filtered
// distributions have the least entropy get a token of theirs, until `left` are masked.
func entropyLaw(mask int32, temperature, topP float64, left func(step, masked int) int) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		masked := 0
		scores := make([]float64, len(x))
		q := make([][]float64, len(x))
		for i := range x {
			q[i] = []float64{1} // of an open position nothing is drawn
			scores[i] = math.Inf(-1)
			if x[i] != mask {
				continue
			}
			masked++
			q[i] = tempered(p[i], temperature, 0, topP)
			scores[i] = 0
			for _, v := range q[i] {
				if v > 0 {
					scores[i] += v * math.Log(v)
				}
			}
		}
		opened := highest(scores, masked-left(step, masked))
		for i := range x {
			if !slices.Contains(opened, i) {
				q[i] = []float64{1}
			}
		}
		eachDraw(q, func(drawn []int32, probability float64) {
			after := slices.Clone(x)
			for _, i := range opened {
				after[i] = drawn[i]
			}
			add(after, probability)
		})
	}
}

// RND1 and Dream draw from the tempered distributions, and order positions by them too.
func TestEntropyRunsDrawTheirAuthorsLaw(t *testing.T) {
	const steps = 3
	for _, name := range []string{"hmm:length=4,tokens=4,hidden=3,seed=5",
		"hmm:length=5,tokens=3,hidden=3,seed=9"} {
		m := exactModel(t, name)
		mask := int32(m.Tokens())
		rnd1 := func(step, masked int) int { return m.Length() * (steps - step) / steps }
		dream := func(step, masked int) int {
			if step == steps {
				return 0
			}
			const eps = 1e-3 // times go from 1 to eps
			time := func(step int) float64 { return 1 - (1-eps)*float64(step)/steps }
			return masked - int(float64(masked)*(1-time(step)/time(step-1)))
		}
		for _, c := range []struct {
			recipe            string
			temperature, topP float64
			left              func(step, masked int) int
		}{
			{"entropy schedule=floor steps=3 temperature=0.1", 0.1, 1, rnd1},
			{"entropy schedule=floor steps=3 temperature=0.7", 0.7, 1, rnd1},
			{"entropy schedule=dream steps=3 temperature=0.6 top-p=0.95", 0.6, 0.95, dream},
		} {
			want := enumerateLaw(m, steps, entropyLaw(mask, c.temperature, c.topP, c.left))
			require.Less(t, lawRatio(t, m, c.recipe, 4000, want), 1.0, "%s: %s", name, c.recipe)
		}
		other := enumerateLaw(m, steps, entropyLaw(mask, 1, 1, rnd1))
		require.Greater(t, lawRatio(t, m, "entropy schedule=floor steps=3 temperature=0.1", 4000, other),
			1.5, name)
	}
}

// lladaLaw is a step of LLaDA's generate.py with low_confidence remasking: a token is drawn at
// every masked position from the tempered distribution, and those stay whose probability without
// the temperature is largest.
func lladaLaw(mask int32, steps int, temperature float64) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		q := make([][]float64, len(x))
		for i := range x {
			q[i] = []float64{1}
			if x[i] == mask {
				q[i] = tempered(p[i], temperature, 0, 1)
			}
		}
		count := len(x) / steps
		if step <= len(x)%steps {
			count++
		}
		eachDraw(q, func(drawn []int32, probability float64) {
			confidence := make([]float64, len(x))
			for i := range x {
				confidence[i] = math.Inf(-1)
				if x[i] == mask {
					confidence[i] = p[i][drawn[i]]
				}
			}
			after := slices.Clone(x)
			for _, i := range highest(confidence, count) {
				after[i] = drawn[i]
			}
			add(after, probability)
		})
	}
}

// LLaDA's confidence is that of the untempered distribution, from which it does not draw.
func TestLLaDADrawsItsAuthorsLaw(t *testing.T) {
	const steps = 3
	for _, name := range []string{"hmm:length=4,tokens=4,hidden=3,seed=5",
		"hmm:length=5,tokens=3,hidden=3,seed=9"} {
		m := exactModel(t, name)
		for temperature, text := range map[float64]string{0.5: "0.5", 1: "1", 1.5: "1.5"} {
			want := enumerateLaw(m, steps, lladaLaw(int32(m.Tokens()), steps, temperature))
			for _, recipe := range []string{
				"low-confidence(temperature=" + text + ") schedule=llada steps=3",
				"semi-ar(low-confidence(temperature=" + text + ")) schedule=llada steps=3",
			} {
				require.Less(t, lawRatio(t, m, recipe, 4000, want), 1.0, "%s: %s", name, recipe)
			}
		}
	}
}
