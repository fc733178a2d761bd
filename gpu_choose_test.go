//go:build linux && (amd64 || arm64)

package unmask_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/backend/cuda"
	"unmask/demo"
	"unmask/generate"
	"unmask/internal/fakecuda"
	"unmask/samplers"
)

// opened records what a run opened, step by step.
type opened struct {
	Positions []generate.Opened
	Evaluated generate.Evaluated
}

func record(t *testing.T, m *unmask.Model, run unmask.Run) (all []opened, logP []float64) {
	for step, err := range unmask.Generate(context.Background(), m, run) {
		require.NoError(t, err)
		for _, s := range step.Sequences {
			o := opened{slices.Clone(s.Opened), s.Evaluated}
			for i := range o.Positions {
				logP = append(logP, o.Positions[i].LogP)
				o.Positions[i].LogP = 0
			}
			all = append(all, o)
		}
	}
	return all, logP
}

// odds is an order of another module that a device can follow because it has the method Ranking:
// odd positions come first.
type odds struct{}

func init() {
	samplers.Register(samplers.Rule[odds]{Name: "odds", Line: "odd positions first", Paper: "a test"})
}

var oddsOrders sync.Map // length -> []int32

func oddsFirst(length int) []int32 {
	if order, ok := oddsOrders.Load(length); ok {
		return order.([]int32)
	}
	var order []int32
	for _, first := range []int{1, 0} {
		for p := first; p < length; p += 2 {
			order = append(order, int32(p))
		}
	}
	kept, _ := oddsOrders.LoadOrStore(length, order)
	return kept.([]int32)
}

func (odds) Needs(step, steps int) samplers.Need { return samplers.Need{} }

func (odds) Rank(v *samplers.View, k int) (positions []int) {
	for _, p := range oddsFirst(len(v.Tokens)) {
		if slices.Contains(v.Masked, int(p)) && len(positions) < k {
			positions = append(positions, int(p))
		}
	}
	return positions
}

func (odds) Ranking(_, _ int, shape []int) (samplers.Ranking, bool) {
	by := [2]backend.Measure{backend.ByOrder, backend.ByOrder}
	return samplers.Ranking{By: by, Share: 1, Order: oddsFirst(shape[0])}, true
}

// The GPU chooses positions and tokens for the paper's samplers except vanilla, and they equal the
// CPU's in the same order, with the same number of head rows. With filters the host chooses.
func TestGPUChooses(t *testing.T) {
	if !cuda.Included {
		t.Skip("this build has no GPU support")
	}
	var l *fakecuda.Library // nil on a GPU, whose calls are not counted
	if !fakecuda.OnGPU() {
		l = fakecuda.Open(t)
		t.Setenv(cuda.LibraryVariable, l.Path)
	}
	onCPU, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Device: "cpu"})
	require.NoError(t, err)
	onGPU, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Device: "cuda"})
	require.NoError(t, err)
	const steps, batches = 4, 2
	cases := map[string]int{"hybrid(random,moment)": 1, "odds": 1, "hybrid(odds,u-moment)": 2}
	maps.Copy(cases, goldenCaches)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		for _, topK := range []string{"", "50"} {
			s, err := samplers.Parse(name)
			require.NoError(t, err)
			over := unmask.Overrides{"sampler": name, "schedule": "uniform",
				"cache": strconv.Itoa(cases[name]), "steps": strconv.Itoa(steps)}
			if topK != "" {
				over["top-k"] = topK
			}
			run := unmask.Run{N: 3, Batch: 2,
				Request: unmask.Request{Seed: 5, Length: 14, Overrides: over}}
			want, wantLogP := record(t, onCPU, run)
			if l != nil {
				l.Forget()
			}
			got, logP := record(t, onGPU, run)
			require.Equal(t, want, got, name)
			require.InDeltaSlice(t, wantLogP, logP, 1e-3, name)
			if l == nil {
				continue
			}
			chosen := batches * steps
			if s.Needs(1, steps) == (samplers.Need{}) {
				chosen-- // the first step's positions are chosen before a pass has said which device it is
			}
			if name == "vanilla" || topK != "" {
				chosen = 0
			}
			require.Equal(t, chosen, l.Calls("unmask_choose"), name)
			if chosen > 0 {
				require.GreaterOrEqual(t, l.Calls("cuGraphLaunch"), 2,
					"%s: passes from the second on that the GPU chooses after", name)
			}
		}
	}
}
