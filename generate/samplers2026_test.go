package generate_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/parity"
)

// run2026 is a run of a published rule, from golden.json of the packs samplers-2026-*.
type run2026 struct {
	Rule   string
	Late   string
	New    int
	Block  int
	Base   int
	Skip   int
	Stride int
	Least  float64
	Theta  float64
	Bits   float64
}

// recipe returns the run's recipe, "" for a rule that this program does not have.
func (r *run2026) recipe() string {
	in := func(inside string) string {
		return fmt.Sprintf("semi-ar(greedy(%s), block=%d)", inside, r.Block)
	}
	switch {
	case r.Rule == "dus" && r.Late != "never":
		return in(fmt.Sprintf("dilated(base=%d, skip=%d, least=%v)", r.Base, r.Skip, r.Least))
	case r.Rule == "by_threshold_spaced":
		return in(fmt.Sprintf("spaced(threshold(theta=%v), stride=%d)", r.Theta, r.Stride))
	case r.Rule == "by_budget_spaced":
		return in(fmt.Sprintf("spaced(eb(budget=%v), stride=%d)", r.Bits*math.Ln2, r.Stride))
	}
	return ""
}

// packs2026 are the packs with runs of rules of 2026, each with weights of its own.
var packs2026 = []string{"samplers-2026-1", "samplers-2026-2", "samplers-2026-3"}

// loadRuns returns the network of a pack and its runs by name.
func loadRuns(t *testing.T, pack string) (*parity.Pack, model.Denoiser, map[string]*run2026) {
	p := parity.Open(t, pack)
	l, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	data, err := fs.ReadFile(p.Files, "golden.json")
	require.NoError(t, err)

	// Levels, curves and laws stand beside the runs and have other forms.
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &all))
	runs := map[string]*run2026{}
	for name, raw := range all {
		r := new(run2026)
		if json.Unmarshal(raw, r) == nil && r.Rule != "" {
			runs[name] = r
		}
	}
	return p, l.Denoiser, runs
}

// Every rule opens the reference's positions in the same order in the same passes, with the same
// tokens, and computes as many rows.
func TestRulesOf2026(t *testing.T) {
	compared := 0
	for _, pack := range packs2026 {
		p, m, runs := loadRuns(t, pack)
		for name, run := range runs {
			text := run.recipe()
			if text == "" {
				continue
			}
			compared++
			t.Run(pack+"/"+name, func(t *testing.T) {
				compareRun(t, p, m, name, text, run.New)
			})
		}
	}
	require.Equal(t, 5*len(packs2026), compared)
}

// compareRun compares a recipe's run with the golden run of a name.
func compareRun(t *testing.T, p *parity.Pack, m model.Denoiser, name, text string, length int) {
	golden := func(what string) []int32 {
		v, _ := p.Ints("golden_" + name + what)
		return v
	}
	prompt := golden("_prompt")
	recipe, err := generate.ParseRecipe(text)
	require.NoError(t, err)
	known := slices.Repeat([]int32{m.Spec().Mask}, len(prompt)+length)
	copy(known, prompt)

	var opened []int32
	var last generate.Sequence
	o := generate.Options{Request: generate.Request{Recipe: recipe, Known: known}}
	for step, err := range generate.Run(t.Context(), m, o) {
		require.NoError(t, err)
		last = *step.Sequences[0].Sequence
		for _, one := range last.Opened {
			opened = append(opened, int32(step.N-1), int32(one.Position))
		}
	}
	require.Equal(t, golden(""), last.Tokens)
	require.Equal(t, golden("_opened"), opened, "pass and position of what opened")
	passes := golden("_passes")
	require.EqualValues(t, passes[0], last.N, "passes")
	rows := last.Work.Full*len(last.Tokens) + last.Work.Partial
	require.EqualValues(t, passes[1], rows, "rows")
}

// dilatedLaw is a step of a block that is the whole sequence: all of a level is drawn at once, each
// position from its own marginal.
func dilatedLaw(mask int32, levels [][]int) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		level := levels[step-1]
		q := make([][]float64, len(level))
		for i, position := range level {
			q[i] = p[position]
		}
		eachDraw(q, func(drawn []int32, probability float64) {
			after := slices.Clone(x)
			for i, position := range level {
				after[position] = drawn[i]
			}
			add(after, probability)
		})
	}
}

// Texts of dilated have the law of its levels, and not that of the levels of another stride.
func TestDilatedDrawsItsLaw(t *testing.T) {
	m := exactModel(t, "markov:length=6,tokens=3,stay=0.6")
	byBase := map[int][]float64{}
	for _, base := range []int{2, 3} {
		levels := samplers.Dilated{Base: base}.Levels(m.Length())
		byBase[base] = enumerateLaw(m, len(levels), dilatedLaw(int32(m.Tokens()), levels))
	}
	require.Less(t, lawRatio(t, m, "dilated", 20000, byBase[2]), 1.0)
	require.Less(t, lawRatio(t, m, "dilated(base=3)", 20000, byBase[3]), 1.0)
	require.Greater(t, lawRatio(t, m, "dilated(base=3)", 20000, byBase[2]), 1.5)
}

// spacedLaw is a step of spaced around eb with a budget so large that all masks are ready: the
// order is that of the entropies, and what is near one before it waits.
func spacedLaw(mask int32, stride int) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		doubt := make([]float64, len(x))
		masked := 0
		for i := range x {
			doubt[i] = math.Inf(-1)
			if x[i] != mask {
				continue
			}
			masked++
			doubt[i] = 0
			for _, v := range p[i] {
				doubt[i] += v * math.Log(v)
			}
		}
		gap := max(2, masked*stride/len(x))
		var kept []int
		for _, i := range highest(doubt, masked) {
			if !slices.ContainsFunc(kept, func(k int) bool { return max(i-k, k-i) < gap }) {
				kept = append(kept, i)
			}
		}
		q := make([][]float64, len(kept))
		for j, i := range kept {
			q[j] = p[i]
		}
		eachDraw(q, func(drawn []int32, probability float64) {
			after := slices.Clone(x)
			for j, i := range kept {
				after[i] = drawn[j]
			}
			add(after, probability)
		})
	}
}

// Texts of spaced have its law, and not that of another stride.
func TestSpacedDrawsItsLaw(t *testing.T) {
	m := exactModel(t, "hmm:length=6,tokens=3,hidden=3,seed=4")
	byStride := map[int][]float64{}
	for _, stride := range []int{2, 4} {
		byStride[stride] = enumerateLaw(m, m.Length(), spacedLaw(int32(m.Tokens()), stride))
	}
	require.Less(t, lawRatio(t, m, "spaced(eb(budget=1000),stride=2)", 40000, byStride[2]), 1.0)
	require.Less(t, lawRatio(t, m, "spaced(eb(budget=1000),stride=4)", 40000, byStride[4]), 1.0)
	require.Greater(t, lawRatio(t, m, "spaced(eb(budget=1000),stride=4)", 40000, byStride[2]), 1.0)
	require.Greater(t, lawRatio(t, m, "eb(budget=1000)", 40000, byStride[2]), 1.5)
}

// Around every rule of its own pace, spaced runs and opens no two positions that are near, or is
// refused by name in one line.
func TestSpacedKeepsPositionsApart(t *testing.T) {
	bold := map[string]string{"eb": "budget=9", "threshold": "theta=0.05", "factor": "f=9",
		"entropy-threshold": "entropy=9", "frechet": "margin=-1"}
	ran := 0
	for _, info := range samplers.List() {
		text := fmt.Sprintf("spaced(%s(%s),stride=10)", info.Name, bold[info.Name])
		recipe, err := generate.ParseRecipe("sampler=" + text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n", info.Name)
			require.NotContains(t, bold, info.Name, "%v", err)
			continue
		}
		o := generate.Options{Request: generate.Request{Recipe: recipe, Seed: 5, Length: 20}}
		if _, err := o.Check(newTable(4, 5)); err != nil {
			require.NotContains(t, bold, info.Name, "%v", err)
			continue
		}
		ran++
		masked := 20
		for step, err := range generate.Run(t.Context(), newTable(4, 5), o) {
			require.NoError(t, err, info.Name)
			opened := step.Sequences[0].Opened
			gap := max(2, masked*10/20)
			for i, one := range opened {
				for _, other := range opened[:i] {
					apart := max(one.Position-other.Position, other.Position-one.Position)
					require.GreaterOrEqual(t, apart, gap, "%s: %d masked", info.Name, masked)
				}
			}
			masked -= len(opened)
		}
		require.Zero(t, masked, info.Name)
	}
	require.Greater(t, ran, len(bold))
}

// psiLaw is a run of a Psi-sampler on masks, in the paper's form: with the weight kappa the
// posterior, else fresh noise around the predicted text. The pass after the last step takes the
// most probable tokens.
func psiLaw(steps int, alpha func(t float64) float64, kappa func(step int) float64) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		mask := int32(len(p[0]))
		if step > steps {
			after := slices.Clone(x)
			for i := range x {
				if x[i] == mask {
					after[i] = int32(highest(p[i], 1)[0])
				}
			}
			add(after, 1)
			return
		}
		time := func(n int) float64 { return 1 - float64(n)*(1-1e-5)/float64(steps) }
		before := alpha(time(step - 1))
		later := alpha(time(step))
		k := kappa(step)
		q := make([][]float64, len(x))
		for i := range x {
			q[i] = make([]float64, len(p[i])+1)
			if x[i] != mask {
				q[i][x[i]] = k + (1-k)*later
				q[i][mask] = (1 - k) * (1 - later)
				continue
			}
			for token, v := range p[i] {
				q[i][token] = (k*(later-before)/(1-before) + (1-k)*later) * v
			}
			q[i][mask] = k*(1-later)/(1-before) + (1-k)*(1-later)
		}
		eachDraw(q, add)
	}
}

// Texts of the strategy psi have the law of the paper, with either noise, and only between the
// shares of the steps that it names.
func TestPsiDrawsItsLaw(t *testing.T) {
	m := exactModel(t, "markov:length=3,tokens=2,stay=0.95")
	linear := func(t float64) float64 { return 1 - t }
	cosine := func(t float64) float64 { return 1 - math.Cos(math.Pi/2*(1-t)) }
	const steps = 4
	early := func(step int) float64 {
		if step <= 2 { // from=0.1 to=0.5 of 5 steps: none before, two of them
			return 0.05
		}
		return 1
	}
	for _, c := range []struct {
		recipe string
		want   law
	}{
		{"remdm(strategy=psi,kappa=0.05)",
			psiLaw(steps, linear, func(int) float64 { return 0.05 })},
		{"remdm(strategy=psi,kappa=0.05,noise=cosine)",
			psiLaw(steps, cosine, func(int) float64 { return 0.05 })},
		{"remdm(strategy=psi,kappa=0.05,from=0.1,to=0.5)", psiLaw(steps, linear, early)},
	} {
		want := enumerateLaw(m, steps+1, c.want)
		require.Less(t, lawRatio(t, m, c.recipe+" steps=4", 40000, want), 1.0, c.recipe)
		other := "remdm(strategy=psi,kappa=1)"
		require.Greater(t, lawRatio(t, m, other+" steps=4", 40000, want), 1.5, c.recipe)
	}
}
