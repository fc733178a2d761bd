package bench

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/internal/simd"
)

// BenchmarkAll runs every measurement; -bench 'All/forward/lm12/f32' chooses one. It reports the
// share of the ceiling, measured alternately, beside the time.
func BenchmarkAll(b *testing.B) {
	s := NewSuite(0)
	for _, m := range All() {
		b.Run(m.Name, func(b *testing.B) {
			w, err := m.prepare(s)
			require.NoError(b, err)
			require.NoError(b, w.run())
			for b.Loop() {
				require.NoError(b, w.run())
			}
			seconds := b.Elapsed().Seconds() / float64(b.N)
			r := s.result(m.Name, w.cost, seconds, s.opsRate(w.cost.precision), s.readRate())
			b.ReportMetric(r.Share, "share")
			b.ReportMetric(r.Rate, r.Unit)
			if own := w.cost.sampler; own != nil {
				b.ReportMetric(own.own/(seconds+own.passes), "own")
			}
		})
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		require.False(t, seen[m.Name], "%s twice", m.Name)
		seen[m.Name] = true
	}
	for _, family := range []string{"forward/lm12/", "forward/vit20/", "forward/vit20x8/",
		"partial32/lm12/", "ceiling/", "step64/qwen3-0.6b/", "row1/", "rows8/",
		"head/logits/", "head/moment/", "head/entropy/", "head/top2/", "head/sample/"} {
		for _, p := range []string{"f32", "bf16", "int8"} {
			require.True(t, seen[family+p], family+p)
		}
	}
	for _, name := range []string{"ceiling/read", "attention/1024", "attention/257", "conv/256",
		"conv/128",
		"sampler/random", "sampler/vanilla", "sampler/maskgit", "sampler/moment", "sampler/u-moment",
		"sampler/temp",
		"sampler/halton", "sampler/hybrid", "sampler/info-gain", "sampler/vanilla(bits=32)",
		"generate/lm12/halton", "generate/lm12/hybrid+cache", "generate/text", "generate/image",
		"row1/q8_0", "row1/q4_0", "row1/q4_k", "row1/q5_k", "row1/q6_k", "rows8/q4_k"} {
		require.True(t, seen[name], name)
	}
}

func TestSelect(t *testing.T) {
	for pattern, want := range map[string]int{
		"":                          len(All()),
		"forward":                   13,
		"forward/lm12":              3,
		"forward/*/int8":            3,
		"forward/vit20*":            6,
		"conv/256, attention":       3,
		"conv/256,conv":             2,
		"partial32/lm12/bf16":       1,
		"head/[me]*/{f32}":          -1,
		"nothing":                   -1,
		"forward/lm12/f32/too/long": -1,
		"[":                         -1,
	} {
		got, err := Select(pattern)
		if want < 0 {
			require.Error(t, err, pattern)
			continue
		}
		require.NoError(t, err, pattern)
		require.Len(t, got, want, pattern)
	}
	usual, err := Select(Usual)
	require.NoError(t, err)
	require.Less(t, len(usual), len(All())/2)
	_, err = Select("nothing")
	require.ErrorContains(t, err, "want names such as")
}

// The arithmetic of the published sizes, counted by hand: a block is 12 x width^2 weights.
func TestCounts(t *testing.T) {
	lm := map[string]int{"hidden": 768, "blocks": 12, "mlp": 3072, "length": 1024, "vocabulary": 50258}
	require.InDelta(t, 2*12*12*768*768*1024+12*4*1024*1024*768, passOps(lm, 1024), 1)
	require.InDelta(t, 290e9, passOps(lm, 1024)+headOps(lm, 1024), 3e9)
	require.InDelta(t, 340e6, weightBytes(lm, backend.F32), 1e6)
	require.InDelta(t, 85e6, weightBytes(lm, backend.Int8), 1e6)
	vit := map[string]int{"hidden": 768, "depth": 12, "decoder hidden": 768, "decoder depth": 8,
		"grid": 16, "codes": 1024}
	require.InDelta(t, 77e9, passOps(vit, 257)+headOps(vit, 256), 2e9)
}

func TestResultIsTheShareOfWhatLimits(t *testing.T) {
	s := &Suite{}
	r := s.result("x", cost{ops: 100e9}, 2, 100e9, 0)
	require.Equal(t, Result{Name: "x", Seconds: 2, Share: 0.5, Rate: 50, Unit: "GFLOP/s",
		Limit: s.loop(backend.F32).Name}, r)
	// 10 ms of arithmetic, 500 ms of memory
	r = s.result("x", cost{ops: 1e9, bytes: 10e9}, 1, 100e9, 20e9)
	require.Equal(t, Result{Name: "x", Seconds: 1, Share: 0.5, Rate: 10, Unit: "GB/s",
		Limit: readName}, r)
}

func TestMedian(t *testing.T) {
	require.Equal(t, 0.0, median(nil))
	require.Equal(t, 2.0, median([]float64{9, 1, 2}))
	require.Equal(t, 2.5, median([]float64{9, 1, 2, 3}))
}

func TestRun(t *testing.T) {
	var got []Result
	require.NoError(t, Run(context.Background(),
		Options{Threads: 1, Only: "ceiling/f32,attention/257", Samples: 1},
		func(r Result) { got = append(got, r) }))
	require.Len(t, got, 2)
	for _, r := range got {
		require.Greater(t, r.Seconds, 0.0)
		require.Greater(t, r.Share, 0.0)
		require.Greater(t, r.Rate, 1e-5) // in units of 1e9, also on a machine that does much else
		require.Less(t, r.Rate, 1e6)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Run(ctx, Options{Only: "ceiling/f32"}, func(Result) {}), context.Canceled)
	t.Setenv(simd.Variable, "mmx")
	require.ErrorContains(t, Run(ctx, Options{Only: "ceiling/f32"}, nil), `UNMASK_ISA is "mmx"`)
	require.ErrorContains(t, Run(ctx, Options{Only: "x"}, nil), `pattern "x" matches nothing`)
}

func TestRandomWeightsRepeatExactly(t *testing.T) {
	a, b := randomBF16(3, 200_000, 1, 0.5), randomBF16(3, 200_000, 1, 0.5)
	require.Equal(t, a, b)
	require.Equal(t, a[:100], a[2*65521:][:100])
	require.NotEqual(t, a[:100], randomBF16(4, 50, 1, 0.5))
}
