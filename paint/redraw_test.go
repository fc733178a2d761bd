package paint_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/testkit/refusal"
)

func TestRedraw(t *testing.T) {
	m, err := unmask.Load(context.Background(), filepath.Join(packs, "amused-256-tiny"),
		unmask.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(t, err)
	given := make([]int32, 64)
	for i := range given {
		given[i] = int32(i % 60)
	}
	picture, err := m.Pictures.Image(given)
	require.NoError(t, err)
	codes, err := m.Pictures.Encode(picture)
	require.NoError(t, err)
	ask := func(strength float64) unmask.Request {
		return unmask.Request{Seed: 3, Prompt: "a photo of a cat",
			Image: &unmask.ImageInput{Picture: picture, Strength: strength}}
	}
	for strength, want := range map[float64]struct{ steps, masked int }{
		1:    {12, 64},
		0.5:  {6, 45}, // floor(64 cos(pi/4))
		0.25: {3, 24}, // floor(64 cos(3 pi/8))
		0.01: {1, 8},
	} {
		r, err := m.Prepare(t.Context(), ask(strength))
		require.NoError(t, err)
		require.Equal(t, want.steps, r.Steps)
		masked := 0
		for i, c := range r.Known {
			if c == m.Spec().Mask {
				masked++
			} else {
				require.Equal(t, codes[i], c)
			}
		}
		require.Equal(t, want.masked, masked, "strength %v", strength)
		counts := []int{}
		for step, err := range generate.Each(context.Background(), m.Denoiser,
			generate.PoolOptions{Guided: true}, slices.Values([]generate.Request{r})) {
			require.NoError(t, err)
			left := 0
			for _, c := range step.Sequences[0].Tokens {
				if c == m.Spec().Mask {
					left++
				}
			}
			counts = append(counts, left)
		}
		// floor(64 cos(pi n/24)) in float32, as the authors' program computes it
		all := []int{63, 61, 59, 55, 50, 45, 38, 31, 24, 16, 8, 0}
		require.Equal(t, all[12-want.steps:], counts)
	}
	for strength, want := range map[float64]string{1.5: "strength is 1.5",
		-1: "strength is -1"} {
		_, err := m.Prepare(t.Context(), ask(strength))
		refusal.RequireText(t, err, want)
	}
}
