package generate_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/generate"
	"unmask/testkit/refusal"
)

// Different requests, more than fit at once, have the bytes of their own runs. Each step yields the
// sequences that took part in it.
func TestEachIsItsOwnRun(t *testing.T) {
	for name, d := range subjects(t, 2) {
		t.Run(name, func(t *testing.T) {
			var requests []generate.Request
			for i := range 7 {
				known := slices.Repeat([]int32{d.Spec().Mask}, d.Spec().Length())
				known[i] = 1
				requests = append(requests, generate.Request{Seed: uint64(i % 2), Index: uint32(i / 2),
					Known:  known,
					Recipe: generate.Recipe{Sampler: parse(t, poolRules[i%3]), Steps: 3 + i%3}})
			}
			finished := map[int]bool{}
			steps := map[int]int{}
			for step, err := range generate.Each(t.Context(), d, generate.PoolOptions{Size: 3},
				slices.Values(requests)) {
				require.NoError(t, err)
				require.LessOrEqual(t, len(step.Sequences), 3)
				for _, q := range step.Sequences {
					require.False(t, finished[q.Number])
					steps[q.Number]++
					require.Equal(t, steps[q.Number], q.N)
					require.Equal(t, requests[q.Number].Seed, q.Seed)
					require.Positive(t, q.Seconds)
					if q.Done {
						finished[q.Number] = true
						want, _ := alone(t, d, requests[q.Number])
						require.Equal(t, want, q.Tokens)
					}
				}
			}
			require.Len(t, finished, 7)
		})
	}
}

func TestEachEndsWithAnError(t *testing.T) {
	d := newTable(8)
	good := generate.Request{Recipe: generate.Recipe{Sampler: parse(t, "moment"), Steps: 4}}
	nan := good
	nan.Adjust = func(position int, logits []float32) { logits[2] = float32(math.NaN()) }
	long := good
	long.Length = 99
	run := func(ctx context.Context, o generate.PoolOptions, list ...generate.Request) (last error) {
		for step, err := range generate.Each(ctx, d, o, slices.Values(list)) {
			if last = err; err != nil {
				require.Nil(t, step)
			}
		}
		return last
	}
	require.NoError(t, run(t.Context(), generate.PoolOptions{}))
	require.ErrorContains(t, run(t.Context(), generate.PoolOptions{Size: 1}, good, nan),
		"request 1: generate: step 1 of 4: sequence 0, position 0: a logit is NaN")
	refusal.RequireText(t, run(t.Context(), generate.PoolOptions{}, good, long),
		"request 1: generate: length is 99,")
	require.ErrorContains(t, run(t.Context(), generate.PoolOptions{Size: -1}, good),
		"size is -1, want 1 or more")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range generate.Each(ctx, d, generate.PoolOptions{}, slices.Values(
		[]generate.Request{good})) {
		if err != nil {
			require.True(t, errors.Is(err, context.Canceled))
			return
		}
		cancel()
	}
	t.Fatal("a cancelled run ended without an error")
}
