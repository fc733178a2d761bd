package cli

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/exact"
	"unmask/model"
)

// A model published with a recipe is run with it, except for parameters set by flags.
func TestPublishedRecipe(t *testing.T) {
	d := exact.NewDenoiser(exact.Markov(16, 4, 0.5, 2, 1))
	m := unmask.NewModel(&model.Loaded{Denoiser: d,
		Recipe: "maskgit(alpha=4.5) schedule=mage steps=12 top-p=0.9 guidance=3"}, nil, nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "sampler=maskgit(alpha=4.5) schedule=mage steps=12 top-p=0.9"},
		{[]string{"--steps=4", "--top-p=1"}, "sampler=maskgit(alpha=4.5) schedule=mage steps=4"},
		{[]string{"--alpha=3"}, "sampler=maskgit(alpha=3) schedule=mage steps=12 top-p=0.9"},
		{[]string{"--sampler=eb"}, "sampler=eb schedule=mage steps=12"},
		{[]string{"--sampler=maskgit", "--alpha=3"},
			"sampler=maskgit(alpha=3) schedule=mage steps=12"},
		{[]string{"--sampler=hybrid+cache", "--schedule=uniform"},
			"sampler=hybrid schedule=uniform steps=12 cache=1"},
	} {
		var f samplingFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.register(flags, model.Spec{Shape: []int{16}})
		require.NoError(t, flags.Parse(c.args))
		over, err := f.readOverrides(flags)
		require.NoError(t, err)
		plain := *m
		plain.Recipe = ""
		if q, err := plain.Prepare(t.Context(), unmask.Request{Overrides: over}); c.args == nil {
			require.NoError(t, err)
			require.Equal(t, "sampler=hybrid schedule=uniform steps=16 cache=1", q.Recipe.String())
		}
		q, err := m.Prepare(t.Context(), unmask.Request{Overrides: over})
		require.NoError(t, err)
		require.Equal(t, c.want, q.Recipe.String(), "%v", c.args)
	}
}

// The library fills in the same recipe.
func TestPublishedRecipeOfTheLibrary(t *testing.T) {
	d := exact.NewDenoiser(exact.Markov(16, 4, 0.5, 2, 1))
	published := unmask.NewModel(&model.Loaded{Denoiser: d, Recipe: "halton schedule=cosine steps=12"},
		nil, nil)
	plain := unmask.NewModel(&model.Loaded{Denoiser: d}, nil, nil)
	last := func(m *unmask.Model, r unmask.Request) (tokens []int32) {
		for step, err := range unmask.Generate(t.Context(), m, r, 1) {
			require.NoError(t, err)
			tokens = append(tokens[:0], step.Sequences[0].Tokens...)
		}
		return tokens
	}
	r := unmask.Request{Seed: 4}
	own := last(published, r)
	require.NotEqual(t, last(plain, r), own)
	r.Overrides = unmask.Overrides{"sampler": "halton", "schedule": "cosine", "steps": "12",
		"cache": "0"}
	require.Equal(t, last(plain, r), own)
	known := make([]int32, 16)
	known[3] = d.Spec().Mask
	// in fewer steps
	require.NotEqual(t, known, last(published, unmask.Request{Tokens: known}))
}
