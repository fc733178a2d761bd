package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/demo/scenes"
	"unmask/media/images"
)

// colours is a network whose features are the mean red, green and blue; it has logits if classes is
// not 0.
type colours struct{ classes int }

func (colours) Width() int { return 3 }

func (c colours) Features(_ context.Context, list []*images.Image,
	visit func(i int, features, logits []float32) error) error {
	for i, p := range list {
		f := make([]float32, 3)
		for j, v := range p.Pix {
			f[j%3] += float32(v) * 3 / float32(len(p.Pix))
		}
		var logits []float32
		if c.classes > 0 {
			logits = make([]float32, c.classes) // uniform
		}
		if err := visit(i, f, logits); err != nil {
			return err
		}
	}
	return nil
}

// Landscapes have distance 0 from themselves, a small one from others, and a large one from their
// negatives. Uniform logits score 1.
func TestImageScorer(t *testing.T) {
	x := colours{classes: 5}
	first, _ := scenes.Draw(60, 1)
	second, _ := scenes.Draw(60, 2)
	r, err := NewReference(x.Width(), func(add func([]float32) error) error {
		return x.Features(t.Context(), first,
			func(_ int, f, _ []float32) error { return add(f) })
	})
	require.NoError(t, err)
	score := func(list []*images.Image) Metrics {
		s := NewImageScorer(x, r, len(list))
		require.NoError(t, x.Features(t.Context(), list,
			func(_ int, f, l []float32) error { return s.AddFeatures(f, l) }))
		m, err := s.Metrics(t.Context())
		require.NoError(t, err)
		require.Len(t, m["frechet"].LeaveOneOut, JackknifeGroups)
		require.InDelta(t, 1, m["score"].Value, 1e-9)
		return m
	}
	same, other := score(first), score(second)
	for _, p := range second { // become negatives
		for i, v := range p.Pix {
			p.Pix[i] = 255 - v
		}
	}
	far := score(second)
	require.InDelta(t, 0, same["frechet"].Value, 1e-6)
	require.Equal(t, 1.0, same["precision"].Value)
	require.Greater(t, far["frechet"].Value, 5*other["frechet"].Value)
	require.Less(t, far["precision"].Value, other["precision"].Value)
}

// The Inception Score comes with its deviation over the splits, in JSON and in the table.
func TestInceptionScoreHasItsDeviation(t *testing.T) {
	reference, err := NewReference(3, func(add func([]float32) error) error {
		return errors.Join(add(make([]float32, 3)), add(make([]float32, 3)))
	})
	require.NoError(t, err)
	s := NewImageScorer(colours{classes: 3}, reference, 20)
	for i := range 20 {
		logits := make([]float32, 3)
		logits[i%3] = float32(i)
		require.NoError(t, s.AddFeatures(make([]float32, 3), logits))
	}
	value, deviation, err := s.score.Value()
	require.NoError(t, err)
	require.Positive(t, deviation)
	all, err := s.Metrics(t.Context())
	require.NoError(t, err)
	e := Evaluation{Samples: 20, Metrics: Metrics{"score": all["score"]}}
	data, err := json.Marshal(e)
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"samples":20,"metrics":{"score":{"value":%v,"deviation":%v}}}`,
		value, deviation), string(data))
	require.Contains(t, e.String(), fmt.Sprintf("score       %.4g (dev. %.2g)", value, deviation))
}
