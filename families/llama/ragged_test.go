package llama_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/testkit/parity"
)

// Sequences of different lengths go through one pass, and each has the bytes that it has alone: in
// full passes with and without a cache, and in partial passes.
func TestRagged(t *testing.T) {
	lengths := []int{11, 29, 4, 29, 17}
	const longest = 29
	parity.RunEach(t, []string{"llada-tiny", "dream-tiny", "sdar-tiny"},
		func(t *testing.T, p *parity.Pack, m model.Refiner, _ float64) {
			columns := m.Spec().Outcomes
			run := func(lengths []int, from int) (full, part [][]float32) {
				b := &model.Batch{Size: len(lengths), Length: longest, Lengths: lengths}
				for i := range lengths {
					for pos := range longest {
						b.Tokens = append(b.Tokens, int32((7*(from+i)+3*pos)%columns))
					}
				}
				b.Cache = m.NewCache(b.Size, longest)
				got, err := m.Forward(context.Background(), b)
				require.NoError(t, err)
				logits := func(m model.Marginals, few bool) (out [][]float32) {
					for i, n := range lengths {
						var rows []int32
						for pos := range n {
							if !few || pos%3 == 1 {
								rows = append(rows, int32(i*longest+pos))
							}
						}
						out = append(out, parity.Logits(t, m, rows, columns))
					}
					return out
				}
				full = logits(got, false)
				cache := b.Cache
				b.Cache = nil
				if got, err = m.Forward(context.Background(), b); err != nil {
					require.NoError(t, err)
				}
				require.Equal(t, full, logits(got, false))
				b.Cache = cache
				var rows []int32
				for i, n := range lengths {
					for pos := 1; pos < n; pos += 3 {
						rows = append(rows, int32(i*longest+pos))
						b.Tokens[i*longest+pos] = 5
					}
				}
				got, err = m.Refine(context.Background(), b, rows)
				require.NoError(t, err)
				return full, logits(got, true)
			}
			full, part := run(lengths, 0)
			for i := range lengths {
				f, p := run(lengths[i:i+1], i)
				require.Equal(t, f[0], full[i], "sequence %d", i)
				require.Equal(t, p[0], part[i], "sequence %d", i)
			}
		})
}
