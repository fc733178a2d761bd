package experiments

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/model"
)

func TestPlanPoints(t *testing.T) {
	p, err := ParsePlan([]byte("samplers: [random, hybrid, maskgit]\nsteps: [4, 8]\nalpha: [3, " +
		"6]\ncache: [0, 1]\nseeds: [1]\nn: 8\n"))
	require.NoError(t, err)
	require.Equal(t, "demo", p.Model)
	count := map[string]int{}
	for _, q := range p.Points() {
		count[q.Name()]++
		require.Equal(t, 8, q.Batch)
		require.Equal(t, uint64(1), q.Seed)
	}
	// two numbers of steps each; no α for random, no cache for maskgit
	require.Equal(t, map[string]int{
		"random": 2, "random+cache": 2, "maskgit α=3": 2, "maskgit α=6": 2,
		"hybrid α=3": 2, "hybrid α=6": 2, "hybrid+cache α=3": 2, "hybrid+cache α=6": 2,
	}, count)
}

// Any parameter of a recipe may be a list; equal values are one point.
func TestPlanOfRecipes(t *testing.T) {
	p, err := ParsePlan([]byte("samplers: [hybrid]\nsteps: [4]\nschedule: [uniform, " +
		"cosine]\ntop-p: [0.9, 1, 1.0]\nn: 8\n"))
	require.NoError(t, err)
	var names []string
	for _, q := range p.Points() {
		names = append(names, q.Name())
		o, err := q.Options(model.Spec{})
		require.NoError(t, err)
		require.Equal(t, q.Extra, generate.Recipe{Schedule: o.Schedule, Filter: o.Filter}.String())
	}
	require.Equal(t, []string{"hybrid α=6 schedule=uniform top-p=0.9", "hybrid α=6 schedule=uniform",
		"hybrid α=6 schedule=cosine top-p=0.9", "hybrid α=6 schedule=cosine"}, names)
}

func TestPlanRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "plan is empty",
		"samplers: [random]\nsteps: [4]\nn: 8\nstep: 3":       `line 4: unknown key "step" (did you mean steps?), want one of `,
		"samplers: [random]\nsteps: [4]\nn: 8\nn: 9":          "already",
		"samplers: [random]\nsteps: 4\nn: 8":                  "line 2: steps is 4, want a list of integers",
		"samplers: [random]\nsteps: [4, 1.5]\nn: 8":           "line 2: steps has 1.5, want a list of integers",
		"samplers: [random]\nsteps: [null]\nn: 8":             "line 2: steps has null, want a list of integers",
		"samplers: [random]\nsteps: [x]\nn: 8":                `line 2: steps has "x", want a list of integers`,
		"samplers: [random]\nsteps: &a [*a]\nn: 8":            "line 2: steps has a list, want a list of integers",
		"samplers: [random]\nsteps: [4]\nn: 1e19":             "line 3: n is 1e19, want an integer",
		"samplers: [random]\nsteps: [4]\nn: 8\nlength: 8.5":   "line 4: length is 8.5, want an integer",
		"samplers: [random]\nsteps: [4]\nn: 8\nseeds: [~]":    "line 4: seeds has null, want a list of integers",
		"samplers: [random]\nsteps: [4]\nn: 8\nalpha: [true]": "line 4: alpha has true, want a list of numbers",
		"samplers: [random]\nsteps: [4]\nn: 8\nmodel: [a]":    "line 4: model is a list, want one value",
		"samplers: [random, {}]\nsteps: [4]\nn: 8":            "line 1: samplers has names with values, want a list",
		"- samplers":                         "line 1: plan is a list, want names with values",
		"samplers":                           `line 1: plan is "samplers", want names with values`,
		"steps: [4]\nn: 8":                   "samplers is empty",
		"samplers: [random]\nn: 8":           "steps is empty",
		"samplers: [best]\nsteps: [4]\nn: 8": `unknown sampler "best"`,
		"samplers: [hybrid(repel,u-moment)]\nsteps: [4]\nn: 8": `samplers has "hybrid(repel", want it in quotes`,
		"samplers: [random]\nsteps: [0]\nn: 8":                 "steps has 0",
		"samplers: [random]\nsteps: [4]\nn: 1":                 "n is 1, want 2 or more",
		"samplers: [random]\nsteps: [4]\nn: 8\nalpha: [0]":     "alpha has 0",
		"samplers: [random]\nsteps: [4]\nn: 8\nalpha: [.nan]":  "alpha has NaN",
		"samplers: [random]\nsteps: [4]\nn: 8\ncache: [65]":    "cache has 65",
		"samplers: [random]\nsteps: [4]\nn: 8\nbatch: -1":      "batch is -1",
		"samplers: [random]\nsteps: [4]\nn: 8\nlength: -1":     "length is -1",
		"samplers: [random]\nsteps: [4]\nn: 8\nkind: sound":    `kind is "sound"`,
		"samplers: [random]\nsteps: [4]\nn: 8\nseeds: [-1]":    "line 4: seeds has -1, want a list of integers from 0",
		"samplers: [random]\nsteps: [4]\nn: 8\n---\na: 1":      "more than one document",
		"samplers: [random]\nsteps: [" + strings.Repeat("4,",
			99999) + "4]\nseeds: [1,2]\nn: 8": "more than 100000 points",
		strings.Repeat(" ", maxPlan+1): "plan has more than 1048576 bytes",
		"samplers: [maskgit]\nsteps: [4]\nn: 8\ncache: [1]": "plan has no cell that can run: " +
			"maskgit with cache 1: maskgit draws",
		"samplers: [random]\nsteps: [4]\nn: 8\ntemperatur: [1]": `line 4: unknown key "temperatur" (did you mean temperature?), want one of `,
		"samplers: [random]\nsteps: [4]\nn: 8\ntemperature: [1e-9]": "temperature is 1e-09, want 0.001 " +
			"to 1000",
		"samplers: [random]\nsteps: [4]\nn: 8\ntop-p: 0.5": "line 4: top-p is 0.5, want a list",
	} {
		_, err := ParsePlan([]byte(text))
		require.ErrorContains(t, err, want, "%.80q", text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add([]byte("samplers: [random]\nsteps: [4]\nn: 8\n"))
	f.Add([]byte("samplers: [\"eb(u-moment)\"]\nsteps: [4, 1]\nn: 8\nalpha: [1e300]\ncache: [0,64]\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePlan(data)
		if err != nil {
			return
		}
		if len(p.Samplers)*len(p.Steps)*len(p.Alpha)*len(p.Cache)*len(p.Seeds) > 1000 {
			return
		}
		for _, q := range p.Points() {
			if _, err := q.Options(model.Spec{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A sampler that takes the steps it needs is measured once, unless blocks give it steps.
func TestPlanOfOwnSteps(t *testing.T) {
	for reuse, want := range map[string]int{"none": 3, "blocks": 4} {
		p := Plan{Samplers: []string{"random", "eb(margin)"}, Steps: []int{4, 8}, Alpha: []float64{6},
			Cache: []int{0}, Seeds: []uint64{0}, Extra: map[string][]string{"reuse": {reuse}}}
		require.Len(t, p.Points(), want, reuse)
	}
}

// A plan without a schedule has that of the model's recipe, except where no schedule has an effect.
func TestPlanTakesTheModelsSchedule(t *testing.T) {
	plan := Plan{Samplers: []string{"random", "vanilla", "first-hitting"}, Steps: []int{4}, N: 2}
	own, err := generate.ParseRecipe("halton schedule=cosine steps=64")
	require.NoError(t, err)
	for with, p := range map[string]Plan{
		"schedule=cosine": plan.WithModelSchedule(Task{ModelRecipe: own}),
		"schedule=mage": Plan{Samplers: plan.Samplers, Steps: plan.Steps, N: 2,
			Extra: map[string][]string{"schedule": {"mage"}}}.WithModelSchedule(Task{ModelRecipe: own})} {
		p, err := p.validate()
		require.NoError(t, err)
		var found []string
		for _, q := range p.Points() {
			found = append(found, q.Sampler+" "+q.Extra)
		}
		require.Equal(t, []string{"random " + with, "vanilla ", "first-hitting "}, found)
	}
	require.Nil(t, plan.WithModelSchedule(Task{}).Extra)
}
