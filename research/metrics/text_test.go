package metrics_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/research/metrics"
)

// judge gives token t the negative log-likelihood t/10.
type judge struct{ seen [][]int32 }

func (j *judge) Context() int { return 4 }

func (j *judge) Score(_ context.Context, tokens [][]int32) ([][]float64, error) {
	j.seen = append(j.seen, tokens...)
	var nll [][]float64
	for _, s := range tokens {
		if len(s) > j.Context() {
			return nil, errors.New("too long")
		}
		row := []float64{}
		for _, t := range s[min(1, len(s)):] {
			row = append(row, float64(t)/10)
		}
		nll = append(nll, row)
	}
	return nll, nil
}

// letters reads a as 1, b as 2 and so on, and "." as the end of text, 0.
type letters struct{}

func (letters) EncodeSpecial(text string) ([]int32, error) {
	var ids []int32
	for _, r := range text {
		switch {
		case r == '.':
			ids = append(ids, 0)
		case r < 'a' || r > 'z':
			return nil, errors.New("no such token")
		default:
			ids = append(ids, int32(r-'a')+1)
		}
	}
	return ids, nil
}

func TestPerplexityOfIDs(t *testing.T) {
	var p metrics.Perplexity
	require.NoError(t, p.AddIDs(context.Background(), &judge{}, [][]int32{{9, 1, 3}, {9}, {}}))
	require.NoError(t, p.AddIDs(context.Background(), &judge{}, [][]int32{{9, 8}}))
	require.Equal(t, []int{2, 1}, p.Tokens)
	require.InDeltaSlice(t, []float64{0.2, 0.8}, p.Samples, 1e-12)
	require.Error(t, p.AddIDs(context.Background(), &judge{}, [][]int32{{1, 2, 3, 4, 5}}))
}

func TestPerplexityOfTexts(t *testing.T) {
	for _, c := range []struct {
		text    string
		counted []float64
		scored  [][]int32
	}{
		{"abc", []float64{0.2, 0.3}, [][]int32{{1, 2, 3}}},
		{"ab.", []float64{0.2, 0}, [][]int32{{1, 2, 0}}}, // the first end of text counts
		// the second does not, what follows does
		{"a..d", []float64{0, 0.4}, [][]int32{{1, 0, 0, 4}}},
		{".b.d", []float64{0.2, 0.4}, [][]int32{{0, 2, 0, 4}}},       // the first has no prediction
		{"abcde", []float64{0.2, 0.3, 0.4}, [][]int32{{1, 2, 3, 4}}}, // e is cut off
		{"a", nil, [][]int32{{1}}},
		{"", nil, [][]int32{nil}},
	} {
		t.Run(c.text, func(t *testing.T) {
			var p, want metrics.Perplexity
			want.Add(c.counted)
			j := &judge{}
			o := metrics.Retokenizer{Tokenizer: letters{}, EOS: 0}
			require.NoError(t, p.AddTexts(context.Background(), j, []string{c.text}, o))
			require.Equal(t, want, p)
			require.Equal(t, c.scored, j.seen)
		})
	}
	var p metrics.Perplexity
	err := p.AddTexts(context.Background(), &judge{}, []string{"a", "A"},
		metrics.Retokenizer{Tokenizer: letters{}})
	require.EqualError(t, err, "text 1: no such token")
}

func TestEntropy(t *testing.T) {
	var uniform []int32
	for i := range int32(1024) {
		uniform = append(uniform, i)
	}
	require.InDelta(t, math.Log(1024), metrics.Entropy(uniform), 1e-12)
	require.InDelta(t, math.Log(1024), metrics.Entropy(slices.Concat(uniform, uniform)), 1e-12)
	require.Zero(t, metrics.Entropy(nil))
	require.Zero(t, metrics.Entropy([]int32{5, 5, 5}))
	require.InDelta(t, -(0.25*math.Log(0.25) + 0.75*math.Log(0.75)),
		metrics.Entropy([]int32{1, 2, 2, 2}), 1e-12)
}

func TestDistinct(t *testing.T) {
	s := [][]int32{{1, 2, 1, 2}, {1, 2}, {3}}
	require.InDelta(t, 3.0/7, metrics.DistinctN(s, 1), 1e-12)
	require.InDelta(t, 2.0/4, metrics.DistinctN(s, 2), 1e-12)
	require.InDelta(t, 2.0/2, metrics.DistinctN(s, 3), 1e-12)
	require.Zero(t, metrics.DistinctN(s, 5))
	require.Zero(t, metrics.DistinctN(nil, 1))
}

func TestSelfBLEU(t *testing.T) {
	require.True(t, math.IsNaN(metrics.SelfBLEU([][]int32{{1, 2}}, 2)))
	same := [][]int32{{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}}
	require.InDelta(t, 1, metrics.SelfBLEU(same, 4), 1e-12)
	require.Zero(t, metrics.SelfBLEU([][]int32{{1, 2}, {3, 4}}, 2))
	// By hand. {1 2 3} to {1 2 4 5}: 2/3 and 1/2 of its grams, and one token short.
	// {1 2 4 5} to {1 2 3}: 2/4 and 1/3.
	want := (math.Exp(1-4.0/3)*math.Sqrt(2.0/3*1/2) + math.Sqrt(2.0/4*1/3)) / 2
	require.InDelta(t, want, metrics.SelfBLEU([][]int32{{1, 2, 3}, {1, 2, 4, 5}}, 2), 1e-12)
	// Smoothing: no pair in common.
	want = math.Sqrt(1.0 * 0.1 / 1)
	require.InDelta(t, want, metrics.SelfBLEU([][]int32{{1, 2}, {2, 1}}, 2), 1e-12)
}

// Against BLEU from its definition, one sample against all others.
func TestSelfBLEUIsTheMeanOfBLEU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 7), 2, 6).Draw(t, "samples")
		n := rapid.IntRange(1, 4).Draw(t, "n")
		var sum float64
		for i := range samples {
			others := slices.Delete(slices.Clone(samples), i, i+1)
			sum += bleu(samples[i], others, n)
		}
		got := metrics.SelfBLEU(samples, n)
		if math.Abs(got-sum/float64(len(samples))) > 1e-12 {
			t.Fatalf("%v, by definition %v", got, sum/float64(len(samples)))
		}
	})
}

func bleu(s []int32, others [][]int32, n int) float64 {
	grams := func(s []int32, n int) map[string]int {
		m := map[string]int{}
		for i := 0; i+n <= len(s); i++ {
			var b strings.Builder
			for _, t := range s[i : i+n] {
				b.WriteByte(byte(t))
			}
			m[b.String()]++
		}
		return m
	}
	var logs float64
	for k := 1; k <= n; k++ {
		matched, total := 0, 0
		for gram, c := range grams(s, k) {
			best := 0
			for _, o := range others {
				best = max(best, grams(o, k)[gram])
			}
			matched += min(c, best)
			total += c
		}
		if matched == 0 && k == 1 {
			return 0
		}
		if matched == 0 {
			logs += math.Log(0.1 / float64(max(total, 1)))
		} else {
			logs += math.Log(float64(matched) / float64(total))
		}
	}
	closest := -1
	for _, o := range others {
		away, best := max(len(o)-len(s), len(s)-len(o)), max(closest-len(s), len(s)-closest)
		if closest < 0 || away < best || away == best && len(o) < closest {
			closest = len(o)
		}
	}
	penalty := 1.0
	if len(s) <= closest {
		penalty = math.Exp(1 - float64(closest)/float64(len(s)))
	}
	return penalty * math.Exp(logs/float64(n))
}
