package generate_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/generate"
	"unmask/model"
)

// Set parameters are in the recipe; the others are base's, except those without effect.
func TestAskedOver(t *testing.T) {
	base, err := generate.ParseRecipe("moment(alpha=4.5) schedule=cosine steps=12 cache=1 top-p=0.9 " +
		"guidance=3 guidance-schedule=linear")
	require.NoError(t, err)
	for _, c := range []struct {
		asked generate.Asked
		want  string
	}{
		{nil, base.String()},
		{generate.Asked{"alpha": "3"}, "sampler=moment(alpha=3) schedule=cosine steps=12 cache=1 " +
			"top-p=0.9 guidance=3 guidance-schedule=linear"},
		{generate.Asked{"guidance": "0", "steps": "4"},
			"sampler=moment(alpha=4.5) schedule=cosine steps=4 cache=1 top-p=0.9"},
		{generate.Asked{"sampler": "maskgit", "top-p": "1"}, // maskgit has no cache
			"sampler=maskgit schedule=cosine steps=12 guidance=3 guidance-schedule=linear"},
		{generate.Asked{"sampler": "halton+cache", "cache": "2", "gamma": "2"},
			"sampler=halton(gamma=2) schedule=cosine steps=12 cache=2 top-p=0.9 guidance=3 " +
				"guidance-schedule=linear"},
	} {
		r, err := c.asked.Over(base)
		require.NoError(t, err)
		require.Equal(t, c.want, r.String(), "%v", c.asked)
	}
}

func TestAskedRefuses(t *testing.T) {
	base := generate.Defaults(model.Spec{Shape: []int{16}})
	for want, asked := range map[string]generate.Asked{
		"steps is 0, want 1 to 1048576":                        {"steps": "0"},
		"refresh is 4, want 0 without reuse dkv":               {"refresh": "4"},
		"block-size is 8, want 0 without reuse blocks":         {"block-size": "8"},
		"cache is 0, want 1 or more with sampler a+cache":      {"sampler": "a+cache", "cache": "0"},
		"alpha is 3, want none: sampler halton takes no alpha": {"sampler": "halton", "alpha": "3"},
		"alpha is 3, want none: sampler moment(alpha=2) has its own": {"sampler": "moment(alpha=2)",
			"alpha": "3"},
		"steps is 8, want none: sampler eb takes the steps that it needs": {"sampler": "eb",
			"steps": "8"},
		"schedule is mage, want none: sampler first-hitting decides how many open": {
			"sampler": "first-hitting", "schedule": "mage"},
	} {
		_, err := asked.Over(base)
		require.EqualError(t, err, want)
	}
	_, err := generate.Asked{"step": "8"}.Over(base)
	require.ErrorContains(t, err, `unknown parameter "step" (did you mean steps?)`)
}

// A complete recipe stays itself over any base.
func TestAskedInFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := generate.ParseRecipe(drawRecipe(t))
		if err != nil || r.Sampler == nil {
			return
		}
		asked := generate.Asked{}
		for _, p := range generate.Params() {
			if text := r.Get(p.Name); text != "" {
				asked[p.Name] = text
			}
		}
		got, err := asked.Over(generate.Recipe{Cache: 0})
		if err != nil {
			return // it cannot have an effect
		}
		require.Equal(t, r.String(), got.String())
	})
}
