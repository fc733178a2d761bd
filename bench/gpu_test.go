//go:build linux && (amd64 || arm64)

package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/demo"
	"unmask/generate"
	"unmask/internal/fakecuda"
	"unmask/model"
	"unmask/samplers"
)

// slowTests is an environment variable: if it is set, tests that take minutes also run without a
// GPU.
const slowTests = "UNMASK_SLOW_TESTS"

// TestGPUAtPublishedSizes compares logits of a full and of a partial pass with the CPU's.
func TestGPUAtPublishedSizes(t *testing.T) {
	if !cuda.Supported || !fakecuda.UsesGPU() && os.Getenv(slowTests) == "" {
		t.Skip("no GPU; an emulated one takes minutes, " + slowTests + "=1 asks for it")
	}
	dev, err := cuda.New(cuda.Options{Library: fakecuda.DriverPath(t)})
	require.NoError(t, err)
	for _, c := range []struct {
		network   string
		length    int
		as        backend.Precision
		tolerance float64 // as a fraction of the largest logit
	}{{"lm12", 40, backend.F32, 1e-4}, {"lm12", 40, backend.BF16, 5e-2},
		{"vit20", 256, backend.F32, 1e-4}} {
		t.Run(c.network+"/"+c.as.String(), func(t *testing.T) {
			src, err := sourceOf(c.network)
			require.NoError(t, err)
			want := bothPasses(t, src, model.Options{Backend: cpu.New(cpu.Options{}), Precision: c.as},
				c.length)
			got := bothPasses(t, src, model.Options{Backend: dev, Precision: c.as}, c.length)
			top, off := 0.0, 0.0
			for i, v := range want {
				top = max(top, math.Abs(float64(v)))
				off = max(off, math.Abs(float64(v)-float64(got[i])))
			}
			t.Logf("off by %.2g of the largest logit", off/top)
			require.LessOrEqual(t, off, c.tolerance*top)
		})
	}
}

// bothPasses returns logits of three rows of a full pass, and of a partial one after it.
func bothPasses(t *testing.T, src *model.Source, o model.Options, length int) (all []float32) {
	l, err := model.Load(src, o)
	require.NoError(t, err)
	r := l.Denoiser.(model.Refiner)
	b := &model.Batch{Size: 1, Length: length, Tokens: make([]int32, length),
		Cache: r.NewCache(1, length)}
	for i := range b.Tokens {
		b.Tokens[i] = l.Spec().Mask
		if i%3 == 0 {
			b.Tokens[i] = int32(7 * i % 1000)
		}
	}
	rows := []int32{1, 5, int32(length) - 1}
	read := func(m model.Marginals, err error) {
		require.NoError(t, err)
		logits := make([][]float32, len(rows))
		require.NoError(t, m.Visit(rows,
			func(i int, x []float32) { logits[i] = append([]float32(nil), x...) }))
		for _, x := range logits {
			all = append(all, x...)
		}
	}
	read(l.Forward(context.Background(), b))
	b.Tokens[1], b.Tokens[5] = 9, 11
	read(r.Refine(context.Background(), b, rows))
	return all
}

// BenchmarkGPU times passes and runs on the first GPU, if there is one: whole passes with every
// position masked and the log-sum-exp at each, and runs of 32 steps with and without partial
// caching.
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
				w, err := s.measureForward(c.network, p, c.batch)
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
					m, err := s.loadNetwork(c.network, p)
					require.NoError(b, err)
					o := hybrid(c.batch, 32, cache)
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

// The runs that BenchmarkGPU times are possible, with and without a cache.
func TestSample(t *testing.T) {
	src, err := model.OpenFS(demo.Text(), "demo")
	require.NoError(t, err)
	m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	for cache := range 2 {
		require.NoError(t, sample(t, m, hybrid(1, 2, cache)))
	}
}

// BenchmarkGPUHost times the host's work to build the list of a pass of batch 16, with its
// arguments in pinned memory. The GPU does nothing; most of a call's time is that of the test's
// driver, which protects memory from the host again.
func BenchmarkGPUHost(b *testing.B) {
	if !cuda.Supported {
		b.Skip("this build has no GPU support")
	}
	l := fakecuda.Open(b)
	dev, err := cuda.New(cuda.Options{Library: l.Path})
	require.NoError(b, err)
	for _, p := range []backend.Precision{backend.F32, backend.BF16} {
		b.Run(p.String(), func(b *testing.B) {
			s := &Suite{Device: dev}
			m, err := s.loadNetwork("lm12", p)
			require.NoError(b, err)
			l.Set(b, "computes", 0)
			defer l.Set(b, "computes", 1)
			batch := maskedBatch(m, 16)
			out := make([]float32, 1)
			x := dev.New(1)
			var making time.Duration
			pass := func() {
				began := time.Now()
				_, err := m.Forward(b.Context(), batch)
				making += time.Since(began)
				require.NoError(b, err)
				dev.Read(out, x, 0) // sends the list
			}
			for range 3 {
				pass()
			}
			l.Forget()
			making = 0
			for b.Loop() {
				pass()
			}
			require.Zero(b, l.Calls("cuLaunchKernel"))
			b.ReportMetric(float64(making.Microseconds())/float64(b.N), "µs/list")
		})
	}
}

// hybrid is a run of so many sequences at once.
func hybrid(batch, steps, cache int) generate.Options {
	return generate.Options{N: batch, Batch: batch, Request: generate.Request{Recipe: generate.Recipe{
		Sampler: samplers.ChooseThenSample{Order: samplers.Hybrid{}}, Steps: steps, Cache: cache}}}
}

// sample runs to the end, on the network itself: a Loaded hides its partial passes.
func sample(b testing.TB, m *model.Loaded, o generate.Options) error {
	for _, err := range generate.Run(b.Context(), m.Denoiser, o) {
		if err != nil {
			return err
		}
	}
	return nil
}
