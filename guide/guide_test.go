package guide_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/guide"
	"unmask/model"
)

// flat is a model of one position whose logits depend on its class; for no class they are zeros.
type flat struct{}

func (flat) Spec() model.Spec {
	return model.Spec{Shape: []int{1}, Outcomes: 3, Mask: 3, Fixed: true, Classes: 2}
}

func (flat) Forward(_ context.Context, b *model.Batch) (model.Marginals, error) {
	d := &model.Dense{Columns: 3}
	for i := range b.Size {
		row := []float32{0, 0, 0}
		if c := b.Condition(i); c != nil && c.Class >= 0 {
			row[c.Class] = 1
		}
		d.Logits = append(d.Logits, row...)
	}
	return d, nil
}

func TestModelsWithoutAHead(t *testing.T) {
	g := guide.New(flat{}, func(p model.Progress) float64 { return float64(p.N - 1) })
	b := &model.Batch{Size: 3, Length: 1, Tokens: []int32{3, 3, 3},
		Conditions: []*model.Condition{{Class: 1}, nil, {Class: 0}},
		Steps:      []model.Progress{{N: 3, Steps: 4}, {N: 3, Steps: 4}, {N: 1, Steps: 4}}}
	m, err := g.Forward(context.Background(), b)
	require.NoError(t, err)
	want := [][]float32{{0, 3, 0}, {0, 0, 0}, {1, 0, 0}}
	require.NoError(t, m.Visit([]int32{2, 0, 1},
		func(i int, l []float32) { require.Equal(t, want[[]int{2, 0, 1}[i]], l) }))
	p1, token := make([]float64, 1), make([]int32, 1)
	require.NoError(t, m.Stats([]int32{0}, &model.Stats{P1: p1}))
	require.InDelta(t, math.Exp(3)/(math.Exp(3)+2), p1[0], 1e-6)
	require.NoError(t, m.Sample([]int32{0},
		&model.Draw{Uniform: []float64{0.5}, Token: token, Power: 1}))
	require.Equal(t, int32(1), token[0])
}

func TestSchedules(t *testing.T) {
	for name, want := range map[string][]float64{ // at steps 1, 3 and 4 of 4, with s = 5
		"constant":     {5, 5, 5},
		"linear":       {0, 2.5, 3.75},
		"ramp":         {0, 5 * 2 / 3., 5},
		"cosine":       {1 + 4*(1-math.Sqrt2/2)/2, 1 + 4*(1+math.Sqrt2/2)/2, 5},
		"power-cosine": {0, 2 * (1 - math.Cos(math.Pi/8)), 2 * (1 - math.Cos(math.Pi*27/64))},
	} {
		s, err := guide.Schedule(name, 5)
		require.NoError(t, err)
		for i, n := range []int{1, 3, 4} {
			require.InDelta(t, want[i], s(model.Progress{N: n, Steps: 4}), 1e-9, "%s at step %d", name, n)
		}
	}
	_, err := guide.Schedule("up", 1)
	require.EqualError(t, err,
		`guidance schedule is "up", want constant, linear, ramp, cosine or power-cosine`)
}

func TestPromptsNeedAnother(t *testing.T) {
	p := &model.Prompt{}
	g := guide.New(prompted{}, func(model.Progress) float64 { return 1 })
	_, err := g.Forward(context.Background(),
		&model.Batch{Size: 1, Length: 1, Tokens: []int32{3}, Conditions: []*model.Condition{{Prompt: p}}})
	require.EqualError(t, err, "sequence 0: there is no other prompt, want the empty one for guidance")
}

type prompted struct{ flat }

func (prompted) Spec() model.Spec {
	return model.Spec{Shape: []int{1}, Outcomes: 3, Mask: 3, Fixed: true, Prompt: true}
}
