package exact_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/model"
)

// every calls f with each sequence and its probability.
func every(m *exact.Model, f func(x []int32, p float64)) {
	x := make([]int32, m.Length())
	for {
		f(x, math.Exp(m.LogProb(x)))
		i := 0
		for ; i < len(x); i++ {
			if x[i]++; int(x[i]) < m.Tokens() {
				break
			}
			x[i] = 0
		}
		if i == len(x) {
			return
		}
	}
}

var small = []string{
	"product:length=5,tokens=3", "markov:length=5,tokens=3,stay=0.5",
	"markov:length=6,tokens=2,stay=0.9,sharp=4,seed=7",
	"hmm:length=5,tokens=3,hidden=2", "ising:height=2,width=3,coupling=0.7,field=0.2",
	"ising:height=3,width=2,coupling=-0.4", "markov:length=1,tokens=4",
}

func parse(t *testing.T, text string) *exact.Model {
	m, err := exact.Parse(text)
	require.NoError(t, err)
	return m
}

// Conditionals, partial probabilities and entropy equal sums over all sequences.
func TestExactAgainstEnumeration(t *testing.T) {
	for _, text := range small {
		m := parse(t, text)
		k, mask := m.Tokens(), int32(m.Tokens())
		known := m.Sample(3, 1)
		for i := range known {
			if i%2 == 0 {
				known[i] = mask
			}
		}
		want := make([]float64, m.Length()*k)
		total, agree, nats := 0.0, 0.0, 0.0
		every(m, func(x []int32, p float64) {
			total += p
			if p > 0 {
				nats -= p * math.Log(p)
			}
			wrong, last := 0, 0
			for i, t := range known {
				if t != mask && t != x[i] {
					wrong, last = wrong+1, i
				}
			}
			for i, t := range x {
				if wrong == 0 || wrong == 1 && last == i {
					want[i*k+int(t)] += p
				}
			}
			if wrong == 0 {
				agree += p
			}
		})
		require.InDelta(t, 1, total, 1e-9, text)
		got := make([]float64, len(want))
		require.InDelta(t, math.Log(agree), m.Conditionals(got, known), 1e-9, text)
		for i := range m.Length() {
			row, sum := want[i*k:(i+1)*k], 0.0
			for _, v := range row {
				sum += v
			}
			for j := range row {
				require.InDelta(t, row[j]/sum, got[i*k+j], 1e-9, text)
			}
		}
		h, deviation := m.Entropy()
		require.InDelta(t, nats, h, 1e-9+4*deviation, text)
	}
}

func TestIsingEnergy(t *testing.T) {
	m := exact.Ising(2, 2, 0.5, 0)
	up, mixed := m.LogProb([]int32{1, 1, 1, 1}), m.LogProb([]int32{1, 0, 0, 1})
	require.InDelta(t, 8*0.5, up-mixed, 1e-9) // four bonds of +coupling, against four of -coupling
}

func TestSamplesFollowTheModel(t *testing.T) {
	for _, text := range small {
		m := parse(t, text)
		const n = 4000
		index := func(x []int32) (i int) {
			for _, t := range x {
				i = i*m.Tokens() + int(t)
			}
			return i
		}
		count := map[int]int{}
		for i := range uint32(n) {
			count[index(m.Sample(9, i))]++
		}
		chi, cells := 0.0, 0
		every(m, func(x []int32, p float64) {
			if p*n < 1 {
				return
			}
			d := float64(count[index(x)]) - p*n
			chi += d * d / (p * n)
			cells++
		})
		require.Less(t, chi, float64(cells)+4*math.Sqrt(2*float64(cells))+8, text)
	}
}

func TestAThousandPositions(t *testing.T) {
	for _, text := range []string{"product:length=1024,tokens=256", "markov:length=1024,tokens=32",
		"hmm:length=1024,hidden=8,tokens=64", "ising:height=4,width=256"} {
		m := parse(t, text)
		x := m.Sample(1, 0)
		require.False(t, math.IsInf(m.LogProb(x), 0) || math.IsNaN(m.LogProb(x)), text)
		for i := range x {
			if i%3 != 0 {
				x[i] = int32(m.Tokens())
			}
		}
		p := make([]float64, len(x)*m.Tokens())
		m.Conditionals(p, x)
		for i := range x {
			sum := 0.0
			for _, v := range p[i*m.Tokens() : (i+1)*m.Tokens()] {
				sum += v
			}
			require.InDelta(t, 1, sum, 1e-9, text)
		}
	}
}

func TestDenoiser(t *testing.T) {
	m := parse(t, "hmm:length=6,tokens=3,hidden=2")
	d := exact.NewDenoiser(m)
	tokens := []int32{3, 3, 1, 3, 0, 3, 3, 2, 3, 3, 3, 3}
	got, err := d.Forward(context.Background(), &model.Batch{Size: 2, Length: 6, Tokens: tokens})
	require.NoError(t, err)
	want := make([]float64, 18)
	m.Conditionals(want, tokens[6:])
	s := model.Stats{Beta: 2, LogMoment: make([]float64, 1)}
	require.NoError(t, got.Stats([]int32{6 + 2}, &s))
	square := 0.0
	for _, p := range want[6:9] {
		square += p * p
	}
	require.InDelta(t, math.Log(square), s.LogMoment[0], 1e-6)
	partial, err := d.Refine(context.Background(),
		&model.Batch{Size: 2, Length: 6, Tokens: tokens, Cache: d.NewCache(2, 6)}, []int32{3})
	require.NoError(t, err)
	require.NoError(t, partial.Stats([]int32{6 + 2}, &s))

	for want, tokens := range map[string][]int32{
		"token 1 of sequence 0 is 4, want 0 to 2 or the mask 3": {0, 4, 0, 0, 0, 0},
		"a batch of 1 x 6 has 5 tokens, want 6":                 {0, 0, 0, 0, 0},
	} {
		_, err := d.Forward(context.Background(), &model.Batch{Size: 1, Length: 6, Tokens: tokens})
		require.ErrorContains(t, err, want)
	}
}

// Each class has its own model, and no class has the first.
func TestClasses(t *testing.T) {
	none, first, second := parse(t, "product:length=4,tokens=3"),
		parse(t, "hmm:length=4,tokens=3,hidden=5"), parse(t, "markov:length=4,tokens=3")
	d, err := exact.NewConditional(none, first, second)
	require.NoError(t, err)
	require.Equal(t, 2, d.Spec().Classes)
	x := []int32{3, 1, 3, 3}
	b := &model.Batch{Size: 4, Length: 4, Tokens: slices.Repeat(x, 4),
		Conditions: []*model.Condition{{Class: 1}, nil, {Class: model.NoClass}, {Class: 0}}}
	got, err := d.Forward(context.Background(), b)
	require.NoError(t, err)
	for i, m := range []*exact.Model{second, none, none, first} {
		want := make([]float64, 12)
		m.Conditionals(want, x)
		require.NoError(t, got.Visit([]int32{int32(4*i + 2)}, func(_ int, l []float32) {
			for k, v := range l {
				require.InDelta(t, math.Log(want[6+k]), v, 1e-6)
			}
		}))
	}
	b.Conditions[0].Class = 2
	_, err = d.Forward(context.Background(), b)
	require.EqualError(t, err, "oracle: sequence 0: class is 2, want 0 to 1, or -1 for none")
	_, err = exact.NewConditional(none, parse(t, "product:length=5,tokens=3"))
	require.EqualError(t, err, "oracle: class 0 is [5] of 3 tokens, want [4] of 3")
}

func TestParseRoundTrip(t *testing.T) {
	for _, text := range slices.Concat(small, []string{"product", "markov", "hmm", "ising"}) {
		m := parse(t, text)
		again := parse(t, m.String())
		require.Equal(t, m.String(), again.String())
		require.Equal(t, m.Sample(1, 2), again.Sample(1, 2))
	}
	for text, want := range map[string]string{
		"":                           `oracle: unknown model "", want one of product, markov, letters, hmm, ising`,
		"markov:length":              "length=, want a whole number from 1 to 1024",
		"markov:length=1025":         "want a whole number from 1 to 1024",
		"markov:length=2.5":          "want a whole number",
		"markov:stay=1.5":            "want a number from 0 to 0.99",
		"markov:stay=NaN":            "want a number from 0 to 0.99",
		"markov:size=3":              `unknown parameter "size", want one of length, tokens, stay, sharp, seed`,
		"markov:length=3,length=4":   `parameter "length" twice`,
		"ising:height=8,width=1024":  "8192 positions, want at most 1024",
		"markov:length=4,,tokens=3":  `unknown parameter ""`,
		"hmm:hidden=65":              "want a whole number from 1 to 64",
		"product:tokens=1e300,seed=": "want a whole number from 1 to 256",
	} {
		_, err := exact.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range small {
		f.Add(s)
	}
	f.Add("markov:length=,")
	f.Add("ising:height=1,width=1,coupling=-5,field=5")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := exact.Parse(text); err == nil && m.Length()*m.Tokens() < 64 {
			require.Len(t, m.Sample(0, 0), m.Length())
		}
	})
}
