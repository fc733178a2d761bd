package unmask_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/samplers"
)

// Six calls at once on one model give what each gives alone, with and without partial caching.
func TestGenerateAtOnce(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	picture, err := unmask.LoadFS(demo.Image(), "demo-image", unmask.Options{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		m *unmask.Model
		r unmask.Run
	}{
		"text":  {text, unmask.Run{Sampler: samplers.Moment{}, Length: 24, Steps: 4, N: 2}},
		"image": {picture, unmask.Run{Steps: 3, N: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(i int) (tokens [][]int32) {
				r := c.r
				r.Seed, r.Cache = uint64(i), i%2
				for step, err := range unmask.Generate(t.Context(), c.m, r) {
					if err != nil {
						t.Error(err)
						return nil
					}
					for _, q := range step.Sequences {
						if q.Finished {
							tokens = append(tokens, slices.Clone(q.Tokens))
						}
					}
				}
				return tokens
			}
			var alone, together [6][][]int32
			for i := range alone {
				alone[i] = run(i)
				require.Len(t, alone[i], c.r.N)
			}
			var calls sync.WaitGroup
			for i := range together {
				calls.Go(func() { together[i] = run(i) })
			}
			calls.Wait()
			require.Equal(t, alone, together)
		})
	}
}
