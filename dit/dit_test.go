package dit_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	_ "unmask/dit"
	"unmask/internal/parity"
	"unmask/model"
)

var packs = []string{"sdtt-tiny", "sdtt-tiny-bf16", "sdtt-small"}

// devices are the backends and precisions whose answers are compared, with the tolerance
// as a share of the largest answer.
var devices = []struct {
	name      string
	new       func() backend.Backend
	precision backend.Precision
	tolerance float64
}{
	{"plain", func() backend.Backend { return plain.New() }, backend.F32, 1e-4},
}

func each(t *testing.T, f func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64)) {
	for _, name := range packs {
		for _, d := range devices {
			t.Run(name+"/"+d.name+"/"+d.precision.String(), func(t *testing.T) {
				if name == "sdtt-small" && d.name == "plain" {
					t.Skip("a minute a pass")
				}
				p := parity.Open(t, name)
				m, err := model.Load(p.Source, model.Options{Backend: d.new(), Precision: d.precision})
				require.NoError(t, err)
				f(t, p, m.Denoiser.(model.Refiner), d.tolerance)
			})
		}
	}
}

func batch(tokens []int32, shape []int) *model.Batch {
	return &model.Batch{Size: shape[0], Length: shape[1], Tokens: tokens}
}

func TestFullPass(t *testing.T) {
	each(t, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		for _, prefix := range []string{"", "short_"} {
			tokens, shape := p.Ints(prefix + "tokens")
			want, wantShape := p.Floats(prefix + "logits")
			got, err := m.Forward(context.Background(), batch(tokens, shape))
			require.NoError(t, err)
			parity.Close(t, want, parity.Logits(t, got, parity.Count(len(tokens)), wantShape[2]), tolerance)
		}
	})
}

func TestPartialPass(t *testing.T) {
	each(t, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		rows, _ := p.Ints("partial_rows")
		after, _ := p.Ints("partial_tokens")
		want, wantShape := p.Floats("partial_logits")
		b := batch(tokens[:shape[1]], []int{1, shape[1]})
		b.Cache = m.NewCache(1, shape[1])
		_, err := m.Forward(context.Background(), b)
		require.NoError(t, err)
		b.Tokens = after
		got, err := m.Refine(context.Background(), b, rows)
		require.NoError(t, err)
		parity.Close(t, want, parity.Logits(t, got, rows, wantShape[2]), tolerance)
	})
}

// The marginals are SUBS: the mask token forbidden, normalised over the rest.
func TestLogProbs(t *testing.T) {
	each(t, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		want, wantShape := p.Floats("log_probs")
		mask, columns := m.Spec().Mask, wantShape[2]
		var masked []int32
		for i, id := range tokens {
			if id == mask {
				masked = append(masked, int32(i))
			}
		}
		got, err := m.Forward(context.Background(), batch(tokens, shape))
		require.NoError(t, err)
		logits := parity.Logits(t, got, masked, columns)
		s := model.Stats{LogSum: make([]float64, len(masked))}
		require.NoError(t, got.Stats(masked, &s))
		var a, b []float32
		for i, row := range masked {
			for x := range columns - 1 {
				a = append(a, want[int(row)*columns+x])
				b = append(b, float32(float64(logits[i*columns+x])-s.LogSum[i]))
			}
		}
		parity.Close(t, a, b, tolerance)
	})
}

// Rows of several sequences refined together are the rows refined alone, and a sequence
// in a batch is the sequence alone, byte for byte.
func TestBatchInvariance(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	for _, d := range devices {
		l, err := model.Load(p.Source, model.Options{Backend: d.new()})
		require.NoError(t, err)
		m := l.Denoiser.(model.Refiner)
		tokens, shape := p.Ints("tokens")
		n := shape[1]
		run := func(first, size int) (full, part []float32) {
			b := batch(tokens[first*n:(first+size)*n], []int{size, n})
			b.Cache = m.NewCache(size, n)
			got, err := m.Forward(context.Background(), b)
			require.NoError(t, err)
			full = parity.Logits(t, got, parity.Count(size*n), 101)
			b.Tokens = slices.Clone(b.Tokens)
			var rows []int32
			for s := range size {
				for _, pos := range []int{5, 3, 40} {
					b.Tokens[s*n+pos] = 7
					rows = append(rows, int32(s*n+pos))
				}
			}
			got, err = m.Refine(context.Background(), b, rows)
			require.NoError(t, err)
			return full, parity.Logits(t, got, rows, 101)
		}
		full, part := run(0, 3)
		for s := range 3 {
			f, q := run(s, 1)
			require.Equal(t, full[s*n*101:(s+1)*n*101], f)
			require.Equal(t, part[s*3*101:(s+1)*3*101], q)
		}
	}
}

func TestNoCacheGivesTheSameLogits(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	l, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	m := l.Denoiser.(model.Refiner)
	tokens, shape := p.Ints("tokens")
	b := batch(tokens, shape)
	got, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	without := parity.Logits(t, got, parity.Count(len(tokens)), 101)
	b.Cache = m.NewCache(b.Size, b.Length)
	got, err = m.Forward(context.Background(), b)
	require.NoError(t, err)
	require.Equal(t, without, parity.Logits(t, got, parity.Count(len(tokens)), 101))
}

func TestBadBatches(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	for _, c := range []struct {
		want string
		b    model.Batch
	}{
		{"length is 49, allowed are 1..48", model.Batch{Size: 1, Length: 49, Tokens: make([]int32, 49)}},
		{"length is 0", model.Batch{Size: 1}},
		{"token 1 of sequence 0 is 101, allowed are 0..100", model.Batch{Size: 1, Length: 2, Tokens: []int32{0, 101}}},
		{"token 0 of sequence 1 is -1", model.Batch{Size: 2, Length: 1, Tokens: []int32{0, -1}}},
		{"has 3 tokens", model.Batch{Size: 2, Length: 2, Tokens: make([]int32, 3)}},
	} {
		_, err := m.Forward(context.Background(), &c.b)
		require.ErrorContains(t, err, c.want)
	}
}

func TestCancelledPass(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = m.Forward(ctx, &model.Batch{Size: 1, Length: 2, Tokens: []int32{0, 1}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestStatsOfAllRowsAreFinite(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny-bf16")
	l, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	tokens, shape := p.Ints("tokens")
	got, err := l.Forward(context.Background(), batch(tokens, shape))
	require.NoError(t, err)
	n := len(tokens)
	s := model.Stats{Beta: 2, LogMoment: make([]float64, n), Entropy: make([]float64, n), P1: make([]float64, n), P2: make([]float64, n), Arg: make([]int32, n)}
	require.NoError(t, got.Stats(parity.Count(n), &s))
	for i := range n {
		require.True(t, s.LogMoment[i] < 0 && s.Entropy[i] > 0 && s.Entropy[i] <= math.Log(100) && s.P1[i] >= s.P2[i] && s.P2[i] > 0)
	}
}

// At time 0 the noise level is 0, as it is in every call of a network without time
// conditioning: the general path must agree with the folded one.
func TestTimeConditioningAtZeroIsTheFoldedNetwork(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	tokens, shape := p.Ints("tokens")
	want, wantShape := p.Floats("logits")
	m := timeConditioned(t, p)
	b := batch(tokens, shape)
	_, err := m.Forward(context.Background(), b)
	require.ErrorContains(t, err, "time-conditioned: 0 times for 3 sequences")
	b.Time = make([]float64, 3)
	got, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	parity.Close(t, want, parity.Logits(t, got, parity.Count(len(tokens)), wantShape[2]), 1e-4)
}

func TestTimeConditioning(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	tokens, shape := p.Ints("tokens")
	m := timeConditioned(t, p)
	b := batch(tokens, shape)
	b.Time = timeCases
	got, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	logits := parity.Logits(t, got, parity.Count(len(tokens)), 101)
	var first []float32 // of each sequence's first position, outcomes 0..3
	for s := range 3 {
		first = append(first, logits[s*shape[1]*101:][:4]...)
	}
	parity.Close(t, timeLogits, first, 1e-4)
}

func timeConditioned(t *testing.T, p *parity.Pack) *model.Loaded {
	p.Config = []byte(strings.Replace(string(p.Config), `"time_conditioning": false`, `"time_conditioning": true`, 1))
	require.Contains(t, string(p.Config), `"time_conditioning": true`)
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	return m
}

// The reference's answers for times 1/4, 1/2 and 1: dit(w, tokens, sigma=-log1p(-(1-1e-3)*t)).
var (
	timeCases  = []float64{0.25, 0.5, 1}
	timeLogits = []float32{
		-7.674457056471865, -0.9162692101360532, -0.5500392527018461, -2.746354459553693,
		-7.134172820956126, 0.2188285456169059, -1.1610781769472722, -5.101570688717423,
		-4.120274261028898, -2.0038428478660935, -0.9055042563606391, -1.008673679489141,
	}
)
