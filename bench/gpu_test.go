package bench

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cuda"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// BenchmarkGPU times passes and runs on the first GPU, where there is one: whole passes with every position
// masked and the log-sum-exp at each, and runs of 32 steps with and without partial caching.
func BenchmarkGPU(b *testing.B) {
	gpus, err := cuda.Devices()
	if err != nil || len(gpus) == 0 {
		b.Skipf("no GPU: %v", err)
	}
	dev, err := cuda.New(cuda.Options{})
	require.NoError(b, err)
	for _, c := range []struct {
		network string
		batch   int
	}{{"lm12", 1}, {"lm12", 16}, {"vit20", 1}, {"vit20", 64}} {
		for _, p := range []backend.Precision{backend.F32, backend.BF16, backend.Int8} {
			name := fmt.Sprintf("%s/%v/batch%d", c.network, p, c.batch)
			s := &Suite{Device: dev}
			b.Run("forward/"+name, func(b *testing.B) {
				w, err := s.forward(c.network, p, c.batch)
				require.NoError(b, err)
				for range 3 { // memory, then the graph
					require.NoError(b, w.run())
				}
				for b.Loop() {
					require.NoError(b, w.run())
				}
				b.ReportMetric(w.cost.ops*float64(b.N)/b.Elapsed().Seconds()/1e12, "Top/s")
			})
			for _, cache := range []int{0, 1} {
				b.Run(fmt.Sprintf("hybrid32/%s/cache%d", name, cache), func(b *testing.B) {
					m, err := s.load(c.network, p)
					require.NoError(b, err)
					o := generate.Options{Sampler: samplers.ChooseThenSample{Order: samplers.Hybrid{}}, Steps: 32, Cache: cache, N: c.batch, Batch: c.batch}
					require.NoError(b, sample(b, m, o))
					for b.Loop() {
						require.NoError(b, sample(b, m, o))
					}
					b.ReportMetric(float64(32*b.N)/b.Elapsed().Seconds(), "steps/s")
				})
			}
		}
	}
}

// sample runs to the end.
func sample(b *testing.B, m *model.Loaded, o generate.Options) error {
	for _, err := range generate.Run(b.Context(), m, o) {
		if err != nil {
			return err
		}
	}
	return nil
}
