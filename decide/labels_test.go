package decide

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/exact"
	"unmask/model"
	"unmask/nn"
)

// truth returns the probability of each label at `at`, given the tokens that are known, by a sum
// over all sequences.
func truth(m *exact.Model, known []int32, at int, labels [][]int32) []float64 {
	p, whole := make([]float64, len(labels)), 0.0
	x, k := make([]int32, m.Length()), int32(m.Tokens())
	count := int(math.Pow(float64(k), float64(len(x))))
	for n := range count {
		agrees := true
		for i, rest := 0, n; i < len(x); i, rest = i+1, rest/int(k) {
			x[i] = int32(rest) % k
			agrees = agrees && (known[i] == k || known[i] == x[i])
		}
		if !agrees {
			continue
		}
		one := math.Exp(m.LogProb(x))
		whole += one
		for i, label := range labels {
			if slices.Equal(label, x[at:at+len(label)]) {
				p[i] += one
			}
		}
	}
	for i := range p {
		p[i] /= whole
	}
	return p
}

// On exact models the probabilities are the enumerated truth: of labels of one token and of
// several, of equal and of different lengths, with tokens known on both sides, many rows at once.
func TestExactTruth(t *testing.T) {
	one := [][]int32{{2}, {0}}
	two := [][]int32{{0, 1}, {1, 1}, {0, 2}}
	mixed := [][]int32{{1}, {0, 1}, {2, 0, 1}}
	for _, name := range []string{"markov:length=6,tokens=3,stay=0.4", "product:length=6,tokens=3",
		"hmm:length=6,tokens=3,hidden=2"} {
		m, err := exact.Parse(name)
		require.NoError(t, err)
		var rows []Query
		var want [][]float64
		for _, known := range [][]int32{{3, 3, 3, 3, 3, 3}, {1, 3, 3, 3, 2, 3}, {3, 3, 3, 3, 0, 1}} {
			for _, labels := range [][][]int32{one, two, mixed} {
				rows = append(rows, Query{Tokens: known, Position: 1, Labels: labels})
				want = append(want, truth(m, known, 1, labels))
			}
		}
		d := exact.NewDenoiser(m)
		found, err := ScoreLabels(t.Context(), d, rows, nil)
		require.NoError(t, err)
		for i, f := range found {
			sum := 0.0
			for j, p := range want[i] {
				require.InDelta(t, p, math.Exp(f.LogP[j]), 1e-6, "%s row %d", name, i)
				sum += p
			}
			require.InDelta(t, sum, f.Mass(), 1e-5)
			require.Equal(t, []int{1, 6, 6}[i%3], f.Passes)
			alone, err := ScoreLabels(t.Context(), d, rows[i:i+1], nil)
			require.NoError(t, err)
			require.Equal(t, alone[0], f)
		}
	}
}

// The order of labels changes nothing, and a knockout of pairs has the probabilities of all labels
// at once.
func TestExactOrders(t *testing.T) {
	m := exact.Letters(7)
	d, mask := exact.NewDenoiser(m), int32(m.Tokens())
	row := Query{Tokens: slices.Repeat([]int32{mask}, 7), Position: 3}
	row.Tokens[2], row.Tokens[4] = 19, 4 // t_e
	for letter := range mask {
		row.Labels = append(row.Labels, []int32{letter})
	}
	all, err := ScoreLabels(t.Context(), d, []Query{row}, nil)
	require.NoError(t, err)
	require.InDelta(t, 1, all[0].Mass(), 1e-5)
	want := nn.Probabilities(all[0].LogP, 1)

	back := row
	back.Labels = slices.Clone(row.Labels)
	slices.Reverse(back.Labels)
	reversed, err := ScoreLabels(t.Context(), d, []Query{back}, nil)
	require.NoError(t, err)
	slices.Reverse(reversed[0].LogP)
	require.Equal(t, all[0].LogP, reversed[0].LogP)

	asked := 0
	logP, err := knockout(len(row.Labels), func(pairs [][]int) (odds []float64, err error) {
		var list []Query
		for _, p := range pairs {
			list = append(list, Query{row.Tokens, row.Position, [][]int32{{int32(p[0])}, {int32(p[1])}}})
		}
		asked += len(pairs)
		found, err := ScoreLabels(t.Context(), d, list, nil)
		for _, f := range found {
			odds = append(odds, f.LogP[0]-f.LogP[1])
		}
		return odds, err
	})
	require.NoError(t, err)
	require.Equal(t, len(row.Labels)-1, asked)
	require.InDeltaSlice(t, want, nn.Probabilities(logP, 1), 1e-9)
	require.InDelta(t, 0, slices.Max(logP), 0)
}

// refining counts the rows of a network's passes.
type refining struct {
	model.Refiner
	rows int
}

func (r *refining) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	r.rows += b.Size * b.Length
	return r.Refiner.Forward(ctx, b)
}

func (r *refining) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals,
	error) {
	r.rows += len(rows)
	return r.Refiner.Refine(ctx, b, rows)
}

// Where no later block changes what is before it, a beginning that rows share is computed once, and
// every bit of their answers is that of each alone.
func TestSharedBeginning(t *testing.T) {
	for _, name := range []string{"llada2-moe-tiny", "sdar-tiny", "fast-dllm-v2-tiny", "dream-tiny"} {
		t.Run(name, func(t *testing.T) {
			m, err := unmask.Load(t.Context(), "../testdata/packs/"+name, unmask.Options{Threads: 1})
			require.NoError(t, err)
			spec, own := m.Spec(), 5
			begin := min(100, spec.Length()-2*own) / max(1, spec.Block) * max(1, spec.Block)
			var rows []Query
			sum := 0
			for i := range own {
				r := Query{Position: begin + i, Labels: [][]int32{{1}, {2}, {7}}}
				for j := range begin + i + own {
					x := int32(3 + j%5)
					if j >= begin {
						x = int32(1 + i)
					}
					r.Tokens = append(r.Tokens, x)
				}
				r.Tokens[r.Position] = spec.Mask
				rows, sum = append(rows, r), sum+len(r.Tokens)
			}
			d := &refining{Refiner: m.Denoiser.(model.Refiner)}
			found, err := ScoreLabels(t.Context(), d, rows, nil)
			require.NoError(t, err)
			if spec.Block > 0 {
				require.Equal(t, sum-begin*(own-1), d.rows)
			}
			for i := range rows {
				alone, err := ScoreLabels(t.Context(), m.Denoiser, rows[i:i+1], nil)
				require.NoError(t, err)
				require.Equal(t, alone[0], found[i])
			}
		})
	}
}

func TestRefusedLabels(t *testing.T) {
	d := exact.NewDenoiser(exact.Markov(4, 3, 0, 1, 1))
	free, notTokens := []int32{3, 3, 3, 0}, "want tokens of 0 to 2 that are not the mask"
	for name, c := range map[string]struct {
		row  Query
		want string
	}{
		"known":   {Query{free, 3, [][]int32{{1}, {2}}}, "position 3 of 4 is not masked"},
		"outside": {Query{free, 4, [][]int32{{1}, {2}}}, "position 4 of 4 is not masked"},
		"no room": {Query{free, 2, [][]int32{{1}, {1, 2}}},
			"label 1: 2 tokens at position 2, want masks for all of them"},
		"twice": {Query{free, 0, [][]int32{{1}, {1}}}, "label 1 is [1], want tokens that no other label has"},
		"empty": {Query{free, 0, [][]int32{{}, {1}}}, "label 0 is [], want tokens that no other label has"},
		"below": {Query{free, 0, [][]int32{{1}, {-1}}}, "label 1 is [-1], " + notTokens},
		"above": {Query{free, 0, [][]int32{{99999}, {1}}}, "label 0 is [99999], " + notTokens},
		"mask":  {Query{free, 0, [][]int32{{1, 3}, {1}}}, "label 0 is [1 3], " + notTokens},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ScoreLabels(t.Context(), d, []Query{c.row}, nil)
			require.EqualError(t, err, c.want)
		})
	}
}

// Answers drawn from a model at temperature 2 are fitted by temperature 2, which makes them better;
// its measures are those of the definitions.
func TestCalibrate(t *testing.T) {
	var list []LabelledAnswer
	for i := range 400 {
		logP := []float64{0, math.Sin(float64(i)) * 3, math.Cos(float64(7*i)) * 3}
		u := math.Mod(float64(i)*0.6180339887, 1)
		right, sum := 2, 0.0
		for j, p := range nn.Probabilities(logP, 2) {
			if sum += p; u < sum {
				right = j
				break
			}
		}
		list = append(list, LabelledAnswer{Choice, logP, right})
	}
	fits := Calibrate(list)
	fit := fits[Choice]
	require.Len(t, fits, 1)
	require.Equal(t, 400, fit.Questions)
	require.InDelta(t, 2, fit.Temperature, 0.35)
	require.Less(t, fit.After.LogLoss, fit.Before.LogLoss)
	require.Less(t, fit.After.Brier, fit.Before.Brier)
	require.Less(t, fit.After.ECE, fit.Before.ECE)
	require.Equal(t, fit.Before.Accuracy, fit.After.Accuracy)

	sure := math.Log(0.8) - math.Log(0.2)
	answers := []LabelledAnswer{
		{Boolean, []float64{sure, 0}, 0},
		{Boolean, []float64{0, sure}, 0},
	}
	q := MeasureQuality(answers, 1)
	require.InDelta(t, (0.04+0.04+0.64+0.64)/2, q.Brier, 1e-12)
	require.InDelta(t, 0.3, q.ECE, 1e-12)
	require.InDelta(t, -(math.Log(0.8)+math.Log(0.2))/2, q.LogLoss, 1e-12)
	require.InDelta(t, 0.5, q.Accuracy, 1e-12)
	require.Zero(t, MeasureQuality(nil, 1)) // JSON has no NaN
}

// A temperature at the end of what is searched is said: it is no fit.
func TestCalibrationNotesItsBounds(t *testing.T) {
	right := LabelledAnswer{Boolean, []float64{0, 1}, 1}
	wrong := LabelledAnswer{Boolean, []float64{0, 1}, 0}
	require.Contains(t, Calibrate([]LabelledAnswer{right, right}).Note(), "temperature of boolean")
	require.Contains(t, Calibrate([]LabelledAnswer{wrong, wrong}).Note(), "temperature of boolean")
	require.Empty(t, Calibrate([]LabelledAnswer{right, right, wrong}).Note())
	require.Empty(t, Calibration{}.Note())
}
