package samplers_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

// fullView returns a view with all measures that a rule may need; every third position is open.
func fullView(step, steps int) *samplers.View {
	const length, outcomes = 30, 7
	v := &samplers.View{Mask: outcomes, Outcomes: outcomes, Shape: []int{5, 6}, Step: step,
		Steps: steps,
		Quota: 4, FreeCount: length, BlockTo: length, Rand: samplers.Rand{Seed: 3, Step: uint32(step)},
		OpenedLogP: make([]float64, length), Tokens: make([]int32, length)}
	for p := range length {
		if v.Tokens[p] = v.Mask; p%3 == 0 {
			v.Tokens[p] = int32(p % outcomes)
			v.Open = append(v.Open, p)
			v.OpenLogP = append(v.OpenLogP, -float64(p%5)/2)
			v.OpenedLogP[p] = -float64(p) / 20
			continue
		}
		x := float64(p)
		v.Masked = append(v.Masked, p)
		v.LogMoment = append(v.LogMoment, -math.Mod(x, 4))
		v.Entropy = append(v.Entropy, math.Mod(x, 5)/3)
		v.P1, v.P2 = append(v.P1, 0.5+math.Mod(x, 7)/20), append(v.P2, 0.1)
		v.LogP, v.LogSum = append(v.LogP, -math.Mod(x, 3)), append(v.LogSum, math.Log(outcomes))
		v.Arg, v.Token = append(v.Arg, int32(p%outcomes)), append(v.Token, int32((p+1)%outcomes))
	}
	v.OpenP1, v.OpenArg, v.OpenToken = v.OpenLogP, v.Arg[:len(v.Open)], v.Token[:len(v.Open)]
	v.Visit = func(positions []int, visit func(i int, logits []float32)) error {
		for i := range positions {
			visit(i, make([]float32, outcomes))
		}
		return nil
	}
	v.LookAhead = func(c []samplers.Opening) ([]float64, []int, error) {
		return make([]float64, len(c)), make([]int, len(c)), nil
	}
	return v
}

// No rule changes its view, and the positions that it opens are masked and distinct.
func TestRulesLeaveTheirView(t *testing.T) {
	names := []string{"vanilla(bits=32)", "hybrid(hybrid(random,margin),hybrid)", "eb(hybrid)",
		"remdm(strategy=conf)", "remdm(strategy=psi,noise=cosine)"}
	for _, info := range samplers.List() {
		names = append(names, info.Name)
	}
	for _, name := range names {
		s, err := samplers.Parse(name)
		require.NoError(t, err)
		for step := 1; step <= 4; step++ {
			v, before := fullView(step, 4), fullView(step, 4)
			if f, ok := samplers.As[samplers.Stateful](s); ok {
				v.State = f.NewState(len(v.Tokens))
			}
			o, err := s.Choose(v)
			require.NoError(t, err, name)
			got, want := reflect.ValueOf(*v), reflect.ValueOf(*before)
			for i := range got.NumField() {
				switch f := got.Type().Field(i); f.Name {
				case "Visit", "LookAhead", "State", "scratch":
				default:
					require.Equal(t, want.Field(i).Interface(), got.Field(i).Interface(), "%s: %s", name, f.Name)
				}
			}
			positions := slices.Sorted(slices.Values(o.Positions))
			require.Len(t, slices.Compact(positions), len(o.Positions), name)
			for _, p := range positions {
				require.Contains(t, v.Masked, p, name)
			}
		}
	}
}
