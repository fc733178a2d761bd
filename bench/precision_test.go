package bench

import (
	"context"
	"io/fs"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/demo"
	"unmask/model"
)

// limits on the mean KL divergence to float32, in nats.
var limits = []struct {
	precision backend.Precision
	nats      float64
}{{backend.BF16, 1e-3}, {backend.Int8, 1e-2}}

var demoModels = []struct {
	name  string
	files fs.FS
}{{"text", demo.Text()}, {"image", demo.Image()}}

// BenchmarkPrecision reports the cost of each precision for the demo models: the mean KL divergence
// of its marginals from float32's, and how often both have the same most probable token.
func BenchmarkPrecision(b *testing.B) {
	for _, m := range demoModels {
		r := newReference(b, m.files)
		for _, l := range limits {
			b.Run(m.name+"/"+l.precision.String(), func(b *testing.B) {
				for b.Loop() {
					kl, top := r.divergence(b, l.precision)
					b.ReportMetric(kl, "nats")
					b.ReportMetric(top, "agreement")
				}
			})
		}
	}
}

func TestPrecisionsStayClose(t *testing.T) {
	for _, m := range demoModels {
		r := newReference(t, m.files)
		for _, l := range limits {
			kl, top := r.divergence(t, l.precision)
			t.Logf("%s %v: KL %.2e nats, top-1 agreement %.4f", m.name, l.precision, kl, top)
			require.Less(t, kl, l.nats, "%s %v", m.name, l.precision)
			require.Greater(t, kl, 0.0, "%s %v is float32", m.name, l.precision)
			require.Greater(t, top, 0.9, "%s %v", m.name, l.precision)
		}
	}
}

// reference holds the float32 marginals at every other position of a sample of the model's own,
// with the other positions known.
type reference struct {
	files  fs.FS
	tokens []int32
	rows   []int32
	want   [][]float64
}

func newReference(t testing.TB, files fs.FS) *reference {
	r := &reference{files: files}
	exact := load(t, files, backend.F32)
	fourSteps := unmask.Request{Overrides: unmask.Overrides{"steps": "4"}}
	for step, err := range unmask.Generate(context.Background(), exact, fourSteps, 1) {
		require.NoError(t, err)
		r.tokens = append(r.tokens[:0], step.Sequences[0].Tokens...)
	}
	for i := 0; i < len(r.tokens); i += 2 {
		r.tokens[i] = exact.Spec().Mask
		r.rows = append(r.rows, int32(i))
	}
	r.want = logProbs(t, exact, r.tokens, r.rows)
	return r
}

func (r *reference) divergence(t testing.TB, p backend.Precision) (kl, agreement float64) {
	got := logProbs(t, load(t, r.files, p), r.tokens, r.rows)
	for i := range r.rows {
		best, other := 0, 0
		for x, lp := range r.want[i] {
			kl += math.Exp(lp) * (lp - got[i][x])
			if lp > r.want[i][best] {
				best = x
			}
			if got[i][x] > got[i][other] {
				other = x
			}
		}
		if best == other {
			agreement++
		}
	}
	return kl / float64(len(r.rows)), agreement / float64(len(r.rows))
}

func load(t testing.TB, files fs.FS, p backend.Precision) *unmask.Model {
	m, err := unmask.LoadFS(files, "demo", unmask.Options{Precision: p})
	require.NoError(t, err)
	return m
}

// logProbs returns the marginals at rows, in float64.
func logProbs(t testing.TB, m *unmask.Model, tokens []int32, rows []int32) [][]float64 {
	got, err := m.Forward(context.Background(),
		&model.Batch{Size: 1, Length: len(tokens), Tokens: tokens, Time: []float64{0.5}})
	require.NoError(t, err)
	out := make([][]float64, len(rows))
	var mu sync.Mutex
	require.NoError(t, got.Visit(rows, func(i int, logits []float32) {
		var sum float64
		lp := make([]float64, m.Spec().Outcomes)
		for x := range lp {
			sum += math.Exp(float64(logits[x]))
		}
		for x := range lp {
			lp[x] = float64(logits[x]) - math.Log(sum)
		}
		mu.Lock()
		defer mu.Unlock()
		out[i] = lp
	}))
	return out
}
