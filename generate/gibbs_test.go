package generate_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/research/theory"
	"unmask/testkit/parity"
)

// rowsGiven returns p of the token at each position given the tokens of x at the others, of which
// mask is none.
type rowsGiven func(x []int32) [][]float64

// exactRows are the rows of an exact model.
func exactRows(m *exact.Model) rowsGiven {
	return func(x []int32) [][]float64 {
		flat := make([]float64, len(x)*m.Tokens())
		m.Conditionals(flat, x)
		return slices.Collect(slices.Chunk(flat, m.Tokens()))
	}
}

// gibbsChoice is the law of the k positions with the largest doubt plus standard Gumbel noise: one
// after the other, each in proportion to the exponential of its doubt. -Inf is never chosen.
func gibbsChoice(doubt []float64, k int, add func(chosen []int, probability float64)) {
	var choose func(chosen []int, probability float64)
	choose = func(chosen []int, probability float64) {
		left := 0.0
		for i, d := range doubt {
			if !slices.Contains(chosen, i) {
				left += math.Exp(d)
			}
		}
		if len(chosen) == k || left == 0 {
			add(chosen, probability)
			return
		}
		for i, d := range doubt {
			if weight := math.Exp(d); weight > 0 && !slices.Contains(chosen, i) {
				choose(append(slices.Clone(chosen), i), probability*weight/left)
			}
		}
	}
	choose(nil, 1)
}

// gibbsSweep is the law of a sweep over a text at the time when a share alpha is open.
func gibbsSweep(rows rowsGiven, x []int32, mask int32, alpha float64, k int, doubt []float64,
	add func(after []int32, probability float64)) {
	gibbsChoice(doubt, k, func(chosen []int, probability float64) {
		masked := slices.Clone(x)
		for _, i := range chosen {
			masked[i] = mask
		}
		p := rows(masked)
		var q [][]float64
		for _, i := range chosen {
			row := []float64{}
			for _, v := range p[i] {
				row = append(row, alpha*v)
			}
			q = append(q, append(row, 1-alpha)) // the last outcome is the mask
		}
		eachDraw(q, func(drawn []int32, chance float64) {
			after := slices.Clone(masked)
			for j, i := range chosen {
				after[i] = drawn[j]
			}
			add(after, probability*chance)
		})
	})
}

// The law that the runs below are compared with is the reference's, on a chain of three tokens.
func TestLawOfGibbsIsTheReferences(t *testing.T) {
	for _, pack := range packs2026 {
		p := parity.Open(t, pack)
		data, err := fs.ReadFile(p.Files, "golden.json")
		require.NoError(t, err)
		var golden struct {
			Sweeps map[string]struct {
				State []int32
				Alpha float64
				K     int
				Tau   float64
			} `json:"gibbs_masked"`
		}
		require.NoError(t, json.Unmarshal(data, &golden))
		require.Len(t, golden.Sweeps, 4)
		rows := chainRows(p)
		states, shape := p.Ints("joint_states")
		for name, c := range golden.Sweeps {
			want, _ := p.Floats("gibbs_masked_" + name)
			doubt := make([]float64, len(c.State))
			for i, token := range c.State {
				switch {
				case c.Tau == 0: // at random
				case token == 3:
					doubt[i] = math.Inf(-1)
				default:
					doubt[i] = -math.Log(rows(c.State)[i][token]) / c.Tau
				}
			}
			got := map[string]float64{}
			gibbsSweep(rows, c.State, 3, c.Alpha, c.K, doubt, func(after []int32, probability float64) {
				got[fmt.Sprint(after)] += probability
			})
			for i := range want {
				state := states[i*shape[1] : (i+1)*shape[1]]
				require.InDelta(t, want[i], got[fmt.Sprint(state)], 1e-6, "%s: %v", name, state)
			}
		}
	}
}

// chainRows are the rows of a pack's chain of four tokens, by enumeration.
func chainRows(p *parity.Pack) rowsGiven {
	first, _ := p.Floats("joint_first")
	next, _ := p.Floats("joint_next")
	n := len(first)
	return func(x []int32) [][]float64 {
		rows := make([][]float64, len(x))
		for i := range rows {
			rows[i] = make([]float64, n)
			others := slices.Clone(x)
			others[i] = int32(n)
			all := make([][]float64, len(x)) // every text, as equal draws
			for j := range all {
				all[j] = slices.Repeat([]float64{1}, n)
			}
			eachDraw(all, func(text []int32, _ float64) {
				weight := float64(first[text[0]])
				for j, token := range text {
					if j > 0 {
						weight *= float64(next[int(text[j-1])*n+int(token)])
					}
					if others[j] != int32(n) && others[j] != token {
						weight = 0
					}
				}
				rows[i][text[i]] += weight
			})
			scaleToOne(rows[i])
		}
		return rows
	}
}

// gibbsRun is the law of a run of so many passes: the predictor's coins, and behind the first
// (passes-1)/(1+sweeps) of its steps the sweeps.
func gibbsRun(m *exact.Model, passes, sweeps, k int) []float64 {
	rows := exactRows(m)
	mask := int32(m.Tokens())
	corrected := (passes - 1) / (1 + sweeps)
	predictors := passes - corrected*sweeps
	time := func(step int) float64 {
		return 1 - float64(step-1)*(1-1e-5)/float64(predictors-1)
	}
	now := map[string]float64{
		string(runesOf(slices.Repeat([]int32{mask}, m.Length()))): 1,
	}
	push := func(next func(x []int32, add func([]int32, float64))) {
		later := map[string]float64{}
		for key, weight := range now {
			next(tokensOf(key), func(after []int32, probability float64) {
				later[string(runesOf(after))] += weight * probability
			})
		}
		now = later
	}
	for step := 1; step <= predictors; step++ {
		push(func(x []int32, add func([]int32, float64)) {
			q := rows(x)
			for i := range q {
				stays := 0.0 // the chance to stay a mask
				if step < predictors {
					stays = time(step+1) / time(step)
				}
				best := highest(q[i], 1)[0]
				for token := range q[i] {
					switch {
					case x[i] != mask:
						q[i][token] = 0
					case step == predictors && token != best:
						q[i][token] = 0
					case step == predictors:
						q[i][token] = 1
					default:
						q[i][token] *= 1 - stays
					}
				}
				if x[i] != mask {
					q[i][x[i]] = 1
					stays = 0
				}
				q[i] = append(q[i], stays)
			}
			eachDraw(q, add)
		})
		for range sweeps {
			if step > corrected {
				break
			}
			push(func(x []int32, add func([]int32, float64)) {
				gibbsSweep(rows, x, mask, 1-time(step+1), k, make([]float64, len(x)), add)
			})
		}
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

// Texts of gibbs have the law that all coins and draws of its passes add up to, and not that of
// another number of sweeps or positions.
func TestGibbsDrawsItsLaw(t *testing.T) {
	m := exactModel(t, "markov:length=3,tokens=2,stay=0.95")
	plain := gibbsRun(m, 5, 0, 1)
	for _, c := range []struct {
		recipe    string
		sweeps, k int
	}{
		{"gibbs", 1, 1},
		{"gibbs(sweeps=2)", 2, 1},
		{"gibbs(k=2)", 1, 2},
	} {
		want := gibbsRun(m, 5, c.sweeps, c.k) // --steps 4 and the last pass
		require.Less(t, lawRatio(t, m, c.recipe+" steps=4", 40000, want), 1.0, c.recipe)
		require.Greater(t, lawRatio(t, m, "vanilla steps=4", 40000, want), 1.5, c.recipe)
		require.Greater(t, lawRatio(t, m, c.recipe+" steps=4", 40000, plain), 1.5, c.recipe)
	}
}

// A sweep of one position at random keeps the law of texts at its time, and one of two positions
// does not.
func TestSweepsOfGibbsKeepTheLaw(t *testing.T) {
	m := exactModel(t, "hmm:length=3,tokens=3,hidden=3,seed=4")
	rows := exactRows(m)
	const alpha = 0.6
	mask := int32(m.Tokens())
	truth := map[string]float64{} // texts of which each token is masked with probability 1-alpha
	for index, weight := range theory.Joint(m) {
		text := make([]int32, m.Length())
		for i := range slices.Backward(text) {
			text[i] = int32(index % m.Tokens())
			index /= m.Tokens()
		}
		eachDraw(slices.Repeat([][]float64{{alpha, 1 - alpha}}, m.Length()),
			func(hidden []int32, chance float64) {
				noised := slices.Clone(text)
				for i, h := range hidden {
					if h == 1 {
						noised[i] = mask
					}
				}
				truth[string(runesOf(noised))] += weight * chance
			})
	}
	moved := func(k int) (distance float64) {
		after := map[string]float64{}
		for key, weight := range truth {
			gibbsSweep(rows, tokensOf(key), mask, alpha, k, make([]float64, m.Length()),
				func(x []int32, probability float64) { after[string(runesOf(x))] += weight * probability })
		}
		for key, weight := range truth {
			distance += math.Abs(weight-after[key]) / 2
		}
		return distance
	}
	require.Less(t, moved(1), 1e-12)
	require.Greater(t, moved(2), 1e-3)
}

// The passes of a run are those that were asked for and the last one, however many sweeps there
// are, and a sweep closes what was open.
func TestPassesOfGibbs(t *testing.T) {
	for _, rule := range []string{"gibbs", "gibbs(sweeps=3)", "gibbs(k=4,by=past,tau=0.5)"} {
		for _, steps := range []int{1, 2, 7, 24} {
			o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{
				Sampler: parse(t, rule), Steps: steps}, Seed: 2}}
			closed := 0
			passes := 0
			for step, err := range generate.Run(t.Context(), newTable(16), o) {
				require.NoError(t, err)
				passes++
				closed += len(step.Sequences[0].Closed)
			}
			require.Equal(t, steps+1, passes, rule)
			require.Equal(t, steps > 6, closed > 0, "%s with %d steps", rule, steps)
		}
	}
}
