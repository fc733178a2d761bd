package unmask_test

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
)

// Six calls at once on one model give what each gives alone, with and without partial caching.
func TestGenerateAtOnce(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	picture, err := unmask.LoadFS(demo.Image(), "demo-image", unmask.Options{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		m *unmask.Model
		n int
		o unmask.Overrides
	}{
		"text":  {text, 2, unmask.Overrides{"sampler": "moment", "steps": "4"}},
		"image": {picture, 1, unmask.Overrides{"steps": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(i int) (tokens [][]int32) {
				r := unmask.Run{N: c.n, Request: unmask.Request{Seed: uint64(i), Overrides: maps.Clone(c.o)}}
				if r.Overrides["cache"] = strconv.Itoa(i % 2); c.m.Text != nil {
					r.Length = 24
				}
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
				require.Len(t, alone[i], c.n)
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
