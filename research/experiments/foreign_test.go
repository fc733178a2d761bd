package experiments

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

// warm is a rule of another package, with a Gumbel temperature.
type warm struct {
	Alpha float64 `param:"alpha 0.001..100 =6" help:"of the noise"`
}

func (warm) Needs(int, int) samplers.Need { return samplers.Need{} }

func (w warm) Rank(v *samplers.View, k int) []int {
	return v.Top(k, func(i int) float64 { return w.Alpha*v.Gumbel(i) - float64(i) })
}

func init() {
	samplers.Register(samplers.Rule{Prototype: warm{}, Name: "warm",
		Line:  "the first first, with noise",
		Paper: "a test"})
}

// Rules that another package registered are tuned and swept like the others.
func TestForeignRulesAreTuned(t *testing.T) {
	list := candidateMethods("text", true)
	require.Contains(t, list, Point{Sampler: "warm", Alpha: 3})
	require.Contains(t, list, Point{Sampler: "warm", Alpha: 12, Cache: 1})
	require.NotContains(t, list, Point{Sampler: "moment", Cache: 1})
	cachedMaskGIT := Point{Sampler: "maskgit", Alpha: 3, Cache: 1}
	require.NotContains(t, candidateMethods("image", true), cachedMaskGIT)
	p := Plan{Samplers: []string{"semi-ar(warm)"}, Steps: []int{4}, Alpha: []float64{3, 6},
		Cache: []int{0},
		Seeds: []uint64{0}, N: 4, Batch: 2}
	require.Len(t, p.Points(), 2)
}
