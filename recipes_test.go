package unmask_test

import (
	"bytes"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
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
		"llada2-moe-tiny", "nemotron-labs-tiny", "wedlm-7b-tiny", "dreamon-tiny"} {
		src, err := model.Open("testdata/packs/" + name)
		require.NoError(t, err)
		defer src.Set.Close()
		m, err := model.Load(src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		r, err := generate.ParseRecipe(m.Recipe)
		require.NoError(t, err, name)
		require.Equal(t, "sampler="+m.Recipe, r.String())
		_, err = generate.Options{Recipe: r, Length: 140}.Check(m.Denoiser)
		require.NoError(t, err)
		for preset, recipe := range m.Presets {
			r, err := generate.ParseRecipe(recipe)
			require.NoError(t, err, preset)
			_, err = generate.Options{Recipe: r, Length: 140}.Check(m.Denoiser)
			require.NoError(t, err, preset)
		}
	}
}

// A config.json names the run that its weights are for.
func TestRecipeOfConfig(t *testing.T) {
	config, err := fs.ReadFile(demo.Text(), "config.json")
	require.NoError(t, err)
	with := func(recipe string) (*unmask.Model, error) {
		files := fstest.MapFS{"config.json": {Data: bytes.Replace(config,
			[]byte(`"halton(gamma=1.25) schedule=cosine steps=64"`), []byte(recipe), 1)}}
		for _, name := range []string{"model.safetensors", "tokenizer.json"} {
			data, err := fs.ReadFile(demo.Text(), name)
			require.NoError(t, err)
			files[name] = &fstest.MapFile{Data: data}
		}
		return unmask.LoadFS(files, "m", unmask.Options{Threads: 1})
	}
	m, err := with(`"halton steps=7"`)
	require.NoError(t, err)
	r, err := m.Defaults()
	require.NoError(t, err)
	require.Equal(t, "sampler=halton schedule=uniform steps=7", r.String())
	_, err = with(`7`)
	require.EqualError(t, err, "m: config.json: unmask_recipe is a number, want a string")
	m, err = with(`"nonsense"`)
	require.NoError(t, err)
	_, err = m.Defaults()
	require.ErrorContains(t, err, "m: published recipe: ")
}
