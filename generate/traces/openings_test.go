package traces_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/model"
	"unmask/samplers"
)

// The record of a run has each token's step and probability. They equal those of the latest
// openings in its trace, also if positions are masked again or a batch's sequences end at different
// steps.
func TestOpeningsOfARun(t *testing.T) {
	family, err := exact.Parse("hmm:length=9,tokens=4,hidden=3")
	require.NoError(t, err)
	d := exact.NewDenoiser(family)
	known := slices.Repeat([]int32{d.Spec().Mask}, 9)
	known[4] = 2
	for _, name := range []string{"hybrid", "maskgit", "remdm", "p2", "threshold", "vanilla"} {
		t.Run(name, func(t *testing.T) {
			sampler, err := samplers.Parse(name)
			require.NoError(t, err)
			var all traces.Openings
			type opened struct {
				step int
				logP float64
			}
			latest := map[[2]int]opened{}
			ended := map[int]bool{}
			o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: sampler,
				Steps: 6}, Known: known}, N: 5, Batch: 3}
			for step, err := range generate.Run(t.Context(), d, o) {
				require.NoError(t, err)
				all.Add(step)
				for _, q := range step.Sequences {
					if ended[q.Index] {
						continue
					}
					for _, p := range q.Opened {
						latest[[2]int{q.Index, p.Position}] = opened{step.N, p.LogP}
					}
					for _, p := range q.Closed {
						delete(latest, [2]int{q.Index, p})
					}
					if ended[q.Index] = q.Done; !q.Done {
						continue
					}
					got := all.Take(q.Index)
					require.Len(t, got.Steps, 9)
					require.Len(t, got.LogP, 9)
					require.Zero(t, got.Steps[4])
					require.True(t, math.IsNaN(got.LogP[4]))
					for p := range got.Steps {
						at, ok := latest[[2]int{q.Index, p}]
						require.Equal(t, at.step, got.Steps[p])
						if ok && !math.IsNaN(at.logP) {
							require.Equal(t, at.logP, got.LogP[p])
							require.LessOrEqual(t, at.logP, 0.0)
						} else {
							require.True(t, math.IsNaN(got.LogP[p]))
						}
					}
				}
			}
			require.Len(t, ended, 5)
		})
	}
}

func TestLogProbsAsJSON(t *testing.T) {
	data, err := json.Marshal(traces.LogProbs{-0.5, math.NaN(), -1.0 / 3, 0, -1e-9, math.Inf(-1)})
	require.NoError(t, err)
	require.Equal(t, `[-0.5,null,-0.3333333,0,-1e-09,null]`, string(data))
	var back traces.LogProbs
	require.NoError(t, json.Unmarshal(data, &back))
	require.True(t, math.IsNaN(back[1]))
	require.Equal(t, -0.5, back[0])
	require.Error(t, json.Unmarshal([]byte(`[x]`), &back))
}

// Tokens around a text are counted where it has them: messages have those of their template alone.
func TestAround(t *testing.T) {
	s := model.Spec{Shape: []int{4}, Outcomes: 9, Mask: 9, BeforeText: []int32{7}}
	for name, c := range map[string]struct {
		known []int32
		want  int
	}{"nothing known": {nil, 1}, "a text": {[]int32{7, 9, 9, 9}, 1},
		"messages": {[]int32{3, 9, 9, 9}, 0}} {
		t.Run(name, func(t *testing.T) {
			r := generate.Request{Known: c.known, Length: 4}
			require.Equal(t, c.want, traces.NewHeader(s, r, nil, "x", "_").Around)
		})
	}
}
