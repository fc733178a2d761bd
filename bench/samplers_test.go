package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// A sampler's own work takes some of the time; the head's rows are counted, and so are passes, also
// those that look ahead.
func TestOwnWork(t *testing.T) {
	chain, err := exact.Parse("markov:length=64,tokens=8")
	require.NoError(t, err)
	m := exact.NewDenoiser(chain)
	g, err := newFixedPass(m, &model.Batch{Size: 1, Length: 64,
		Tokens: slices.Repeat([]int32{m.Spec().Mask}, 64), Time: []float64{1}})
	require.NoError(t, err)
	require.Positive(t, g.passSeconds)
	for name, want := range map[string]struct{ rows, passes int }{
		"random":           {8, 2},
		"moment":           {64 + 60 + 8, 2},
		"klass":            {2*(64+60) + 8, 2},
		"info-gain":        {-1, -1}, // candidates may be the same set
		"vanilla(bits=32)": {-1, 2},
	} {
		s, err := samplers.Parse(name)
		require.NoError(t, err)
		var r samplerTimes
		began := time.Now()
		rows,
			err := g.runSteps(generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: s,
			Steps: 16}}}, 1, &r)
		require.NoError(t, err)
		require.Positive(t, r.own, name)
		require.Less(t, r.own, time.Since(began).Seconds(), name)
		if want.rows >= 0 {
			require.Equal(t, want.rows, rows, name)
		}
		if want.passes >= 0 {
			require.InDelta(t, float64(want.passes), r.passes/g.passSeconds, 1e-6, name)
		} else {
			require.Greater(t, r.passes/g.passSeconds, 4.0, name)
		}
	}
}
