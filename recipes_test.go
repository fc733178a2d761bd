package unmask_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/generate"
	"unmask/model"
)

// Every image model's published run parses, and its network accepts it.
func TestPublishedRecipes(t *testing.T) {
	for _, name := range []string{"titok-bert-tiny", "titok-uvit-tiny", "maskgen-tiny",
		"amused-256-tiny", "amused-512-tiny/transformer"} {
		src, err := model.Open("testdata/packs/" + name)
		require.NoError(t, err)
		defer src.Set.Close()
		m, err := model.Load(src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		r, err := generate.ParseRecipe(m.Recipe)
		require.NoError(t, err, name)
		require.Equal(t, "sampler="+m.Recipe, r.String())
		require.Equal(t, model.KindImage, m.Kind)
	}
}

// Every language model's published run does too.
func TestPublishedRecipesOfText(t *testing.T) {
	for _, name := range []string{"llada-tiny", "dream-tiny", "sdar-tiny", "fast-dllm-v2-tiny",
		"llada2-moe-tiny"} {
		src, err := model.Open("testdata/packs/" + name)
		require.NoError(t, err)
		defer src.Set.Close()
		m, err := model.Load(src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		r, err := generate.ParseRecipe(m.Recipe)
		require.NoError(t, err, name)
		require.Equal(t, "sampler="+m.Recipe, r.String())
		_, err = generate.Options{Length: 140}.With(r).Check(m.Denoiser)
		require.NoError(t, err)
	}
}
