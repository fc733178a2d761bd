package theory_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/research/theory"
	"unmask/samplers"
)

// last is an order of another package: the last positions first.
type last struct{}

func init() {
	samplers.Register(samplers.Rule{Prototype: last{}, Name: "last", Line: "the last first",
		Paper: "a test"})
}

func (last) Needs(int, int) samplers.Need { return samplers.Need{} }

func (last) Rank(v *samplers.View, k int) []int {
	return v.Top(k, func(i int) float64 { return float64(i) })
}

// Proposition 2 is also checked for every order that another package registered.
func TestForeignOrdersAreChecked(t *testing.T) {
	results, err := theory.CheckOneByOne(t.Context(), theory.Options{Draws: 4000})
	require.NoError(t, err)
	i := slices.IndexFunc(results,
		func(r theory.Result) bool { return r.Case == "last, one position a step" })
	require.GreaterOrEqual(t, i, 0)
	require.True(t, results[i].Holds)
}
