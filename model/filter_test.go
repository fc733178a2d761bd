package model_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/testkit/refusal"
)

var never = float32(math.Inf(-1))

// Top-k and top-p keep the first logits in descending order, of equal ones those of lowest index.
func TestFilterKeepsTheFirstInOrder(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, std := []int{10, 5000}[r.IntN(2)], []float64{0, 1e-3, 1.5, 4, 60}[r.IntN(5)]
		row := normal(seed, 1+r.IntN(n), std)
		offset, levels := float32(10*r.IntN(2)), []float64{1 << 40, 8, 1}[r.IntN(3)] // few: equal ones
		banned := []int{0, 2, 10}[r.IntN(3)]                                         // of 10
		for i, l := range row {
			row[i] = float32(math.Round(float64(l+offset)*levels) / levels) // -0 too
			if r.IntN(10) < banned {
				row[i] = never
			}
		}
		if r.IntN(20) == 0 {
			row[r.IntN(len(row))] = -never
		}
		f := model.Filter{TopK: max(0, r.IntN(2*len(row)+2)-len(row)),
			TopP: []float64{0, 1e-9, 0.95, r.Float64(), 1 - 1e-9}[r.IntN(5)]}
		require.Equal(t, firstInOrder(row, f), filtered(row, f), "%d: %+v", seed, f)
	}
}

// Equal logits have weights of 1, so that 0.07*100 > 7 asks for eight of them.
func TestFilterOfEqualLogits(t *testing.T) {
	for _, l := range []float32{-3, 0, never, -never} {
		row := slices.Repeat([]float32{l}, 100)
		for _, f := range []model.Filter{{TopP: 0.07}, {TopP: 0.3}, {TopK: 7}, {TopK: 100},
			{TopK: 10, TopP: 0.3}} {
			require.Equal(t, firstInOrder(row, f), filtered(row, f), "%v of %v", f, l)
		}
	}
}

// The first bias that is wrong is named, whatever the map's order.
func TestFilterNamesTheWrongBias(t *testing.T) {
	nan := float32(math.NaN())
	require.EqualError(t, (&model.Filter{Bias: map[int32]float32{-1: 2}}).Check(5),
		"bias is 2 of token -1, want a number, of tokens 0 to 4")
	refusal.RequireText(t, (&model.Filter{Bias: map[int32]float32{4: 2, 3: nan, 5: 1}}).Check(5),
		"bias is NaN of token 3,")
}

// A NaN of the caller's Adjust is refused where the row is used.
func TestFilterKeepsNaN(t *testing.T) {
	for _, f := range []model.Filter{{TopK: 2}, {TopP: 0.5}, {TopK: 4, TopP: 0.5}} {
		f.Adjust = func(_ int32, logits []float32) { logits[1] = float32(math.NaN()) }
		m := &model.Filtered{Base: &model.Dense{Columns: 5, Logits: make([]float32, 5)}, Filter: &f,
			Outcomes: 5}
		require.ErrorContains(t, m.Stats([]int32{0}, stats(1)), "a logit is NaN")
	}
}

// firstInOrder is the definition of top-k and then top-p.
func firstInOrder(row []float32, f model.Filter) []float32 {
	out, order := slices.Repeat([]float32{never}, len(row)), make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case row[a] > row[b]:
			return -1
		case row[a] < row[b]:
			return 1
		}
		return 0
	})
	if f.TopK > 0 {
		order = order[:min(f.TopK, len(order))]
	}
	whole, sum := 0.0, 0.0
	weight := func(i int) float64 { return math.Exp(float64(row[i]) - float64(row[order[0]])) }
	for _, i := range order {
		whole += weight(i)
	}
	for _, i := range order {
		out[i] = row[i]
		if sum += weight(i); f.TopP > 0 && sum >= f.TopP*whole {
			break
		}
	}
	return out
}

func normal(seed uint64, n int, std float64) []float32 {
	r, row := rand.New(rand.NewPCG(seed, 0)), make([]float32, n)
	for i := range row {
		row[i] = float32(std * r.NormFloat64())
	}
	return row
}

// Rows of Dream's vocabulary: the nucleus of its recipe, a draw, and what its order asks for.
func BenchmarkRow(b *testing.B) {
	for name, std := range map[string]float64{"flat": 1.5, "peaked": 4} {
		row, rows := normal(1, 152064, std), []int32{0}
		d := &model.Dense{Columns: len(row), Logits: row}
		f := &model.Filtered{Base: d, Filter: &model.Filter{TopP: 0.95}, Outcomes: len(row)}
		draw := &model.Draw{Uniform: []float64{0.5}, Token: make([]int32, 1)}
		entropy := &model.Stats{Entropy: make([]float64, 1)}
		for of, do := range map[string]func() error{
			"nucleus": func() error { return f.Visit(rows, func(int, []float32) {}) },
			"draw":    func() error { return d.Sample(rows, draw) },
			"entropy": func() error { return d.Stats(rows, entropy) },
		} {
			b.Run(of+" "+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, do())
				}
			})
		}
	}
}
