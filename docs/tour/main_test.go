package main

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
)

// The tour writes what the engine writes.
func TestTourEqualsTheEngine(t *testing.T) {
	ctx := context.Background()
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	for seed, steps := range []int{12, 7, 1} {
		r := unmask.Request{Seed: uint64(seed), Overrides: unmask.Overrides{
			"sampler": "moment", "schedule": "uniform", "steps": strconv.Itoa(steps)}}
		var want []int32
		for step, err := range unmask.Generate(ctx, m, r, 1) {
			require.NoError(t, err)
			want = step.Sequences[0].Tokens
		}
		got, err := generate(ctx, m.Denoiser, steps, uint64(seed))
		require.NoError(t, err)
		require.Equalf(t, want, got, "seed %d, %d steps", seed, steps)
	}
}
