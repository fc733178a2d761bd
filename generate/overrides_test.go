package generate_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

// Set parameters are in the recipe; the others are base's, except those without effect.
func TestOverridesOver(t *testing.T) {
	base, err := generate.ParseRecipe("moment(alpha=4.5) schedule=cosine steps=12 cache=1 top-p=0.9 " +
		"guidance=3 guidance-schedule=linear")
	require.NoError(t, err)
	for _, c := range []struct {
		asked generate.Overrides
		want  string
	}{
		{nil, base.String()},
		{generate.Overrides{"alpha": "3"}, "sampler=moment(alpha=3) schedule=cosine steps=12 cache=1 " +
			"top-p=0.9 guidance=3 guidance-schedule=linear"},
		{generate.Overrides{"guidance": "0", "steps": "4"},
			"sampler=moment(alpha=4.5) schedule=cosine steps=4 cache=1 top-p=0.9"},
		{generate.Overrides{"sampler": "maskgit", "top-p": "1"}, // maskgit has no cache
			"sampler=maskgit schedule=cosine steps=12 guidance=3 guidance-schedule=linear"},
		{generate.Overrides{"sampler": "halton+cache", "cache": "2", "gamma": "2"},
			"sampler=halton(gamma=2) schedule=cosine steps=12 cache=2 guidance=3 " +
				"guidance-schedule=linear"},
	} {
		r, err := c.asked.ApplyTo(base)
		require.NoError(t, err)
		require.Equal(t, c.want, r.String(), "%v", c.asked)
	}
}

// The overrides of a recipe's fields set these fields, also to what is no filter.
func TestOverridesOfRecipe(t *testing.T) {
	base, err := generate.ParseRecipe("moment schedule=cosine steps=12 temperature=0.2 top-p=0.9 cache=1")
	require.NoError(t, err)
	for want, r := range map[string]generate.Recipe{
		"sampler=moment schedule=cosine steps=32 cache=1 temperature=0.7 top-p=0.9 top-k=40": {Steps: 32,
			Filter: model.Filter{Temperature: 0.7, TopK: 40}},
		"sampler=random schedule=uniform steps=12 cache=1": {Schedule: samplers.Uniform,
			Sampler: samplers.ChooseThenSample{Order: samplers.Random{}},
			Filter:  model.Filter{Temperature: 1, TopP: 1}},
		"sampler=moment schedule=cosine steps=12 cache=1 temperature=0.2 top-p=0.9 ban=3 bias=7=2": {
			Filter: model.Filter{Ban: []int32{3}, Bias: map[int32]float32{7: 2}}},
	} {
		got, err := r.Overrides().ApplyTo(base)
		require.NoError(t, err, want)
		require.Equal(t, want, got.String())
	}
	_, err = generate.Recipe{Filter: model.Filter{Temperature: -1}}.Overrides().ApplyTo(base)
	refusal.Require(t, err, "temperature", "-1")
}

// A sampler that is named begins from its own temperature and filters, those of the recipe are
// named as dropped, and all else of the recipe stays.
func TestNamedSamplersBeginFromTheirOwn(t *testing.T) {
	drawing := []string{"temperature", "top-p", "top-k"}
	values := map[string]string{"temperature": "0.2", "top-p": "0.9", "top-k": "40"}
	rapid.Check(t, func(t *rapid.T) {
		base := generate.Recipe{Steps: rapid.IntRange(1, 9).Draw(t, "steps"), Reuse: generate.Blocks,
			BlockSize: 4, Schedule: samplers.LLaDA, Sampler: samplers.P2{}}
		asked := generate.Overrides{}
		named := rapid.Bool().Draw(t, "named")
		if named {
			asked["sampler"] = rapid.SampledFrom([]string{"entropy", "p2", "maskgit"}).Draw(t, "sampler")
		}
		var dropped []string
		for _, name := range drawing {
			hasDefault := rapid.Bool().Draw(t, "base "+name)
			if hasDefault {
				require.NoError(t, base.Set(name, values[name]))
			}
			if rapid.Bool().Draw(t, "asked "+name) {
				asked[name] = map[string]string{"temperature": "0.7", "top-p": "0.5", "top-k": "3"}[name]
			} else if hasDefault && named {
				dropped = append(dropped, name+"="+values[name])
			}
		}
		require.Equal(t, dropped, asked.Dropped(base))
		r, err := asked.ApplyTo(base)
		require.NoError(t, err)
		for _, name := range drawing {
			want := asked[name]
			if want == "" && !named {
				want = base.Get(name)
			}
			require.Equal(t, want, r.Get(name), name)
		}
		for _, name := range []string{"steps", "reuse", "block-size", "schedule"} {
			require.Equal(t, base.Get(name), r.Get(name), name)
		}
	})
}

func TestOverridesRefuses(t *testing.T) {
	base := generate.Defaults(model.Spec{Shape: []int{16}})
	for want, asked := range map[string]generate.Overrides{
		"steps is 0": {"steps": "0"},
		"refresh is 4, want 0 without reuse dkv, block-dkv or finished": {"refresh": "4"},
		"block-size is 8, want 0 without reuse blocks or causal":        {"block-size": "8"},
		"cache is 0, want 1 or more with sampler a+cache":               {"sampler": "a+cache", "cache": "0"},
		"alpha is 3, want none: sampler halton takes no alpha":          {"sampler": "halton", "alpha": "3"},
		"alpha is 3, want none: sampler moment(alpha=2) has its own": {"sampler": "moment(alpha=2)",
			"alpha": "3"},
		"steps is 8, want none: sampler eb takes the steps that it needs": {"sampler": "eb",
			"steps": "8"},
		"schedule is mage, want none: sampler first-hitting decides how many open": {
			"sampler": "first-hitting", "schedule": "mage"},
		"temperature is 0.5, want 0: sampler greedy takes the most probable tokens": {
			"sampler": "semi-ar(greedy(entropy))", "temperature": "0.5"},
		"temperature is 0, want more than 0: sampler theta-trapezoidal draws tokens itself": {
			"sampler": "theta-trapezoidal", "temperature": "0"},
		"temperature is 0.5, want none: sampler low-confidence has its own": {
			"sampler": "low-confidence(temperature=2)", "temperature": "0.5"},
		"top-p is 0.5, want none without a temperature: sampler semi-ar(low-confidence) takes the " +
			"most probable tokens": {"sampler": "semi-ar(low-confidence)", "top-p": "0.5"},
	} {
		_, err := asked.ApplyTo(base)
		refusal.RequireText(t, err, want)
	}
	_, err := generate.Overrides{"step": "8"}.ApplyTo(base)
	refusal.RequireText(t, err, `unknown parameter "step" (did you mean steps?)`)
	_, err = generate.Overrides{"nonsense": "8"}.ApplyTo(base)
	refusal.RequireText(t, err, "want one of alpha, ban, bias, ")
	refusal.RequireText(t, err, " gamma,")
}

// A complete recipe stays itself over any base.
func TestOverridesInFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := generate.ParseRecipe(drawRecipe(t))
		if err != nil || r.Sampler == nil {
			return
		}
		asked := generate.Overrides{}
		for _, p := range generate.Params() {
			if text := r.Get(p.Name); text != "" {
				asked[p.Name] = text
			}
		}
		got, err := asked.ApplyTo(generate.Recipe{Cache: 0})
		if err != nil {
			return // it cannot have an effect
		}
		require.Equal(t, r.String(), got.String())
	})
}

// A temperature reaches the tokens of every published run as its authors' program has it.
func TestTemperatureOfPublishedRuns(t *testing.T) {
	for _, c := range []struct{ base, temperature, want string }{
		{"semi-ar(low-confidence) steps=128", "0.7",
			"sampler=semi-ar(low-confidence(temperature=0.7)) steps=128"},
		{"semi-ar(low-confidence) steps=128 top-p=0.9", "0",
			"sampler=semi-ar(low-confidence) steps=128 temperature=0"},
		{"entropy steps=128 temperature=0.2 top-p=0.95", "0.7",
			"sampler=entropy steps=128 temperature=0.7 top-p=0.95"},
		{"entropy steps=128 temperature=0.2 top-p=0.95", "0",
			"sampler=entropy steps=128 temperature=0 top-p=0.95"},
		{"dynamic(theta=0.85) steps=4 reuse=blocks", "0.7", "sampler=dynamic(theta=0.85,temperature=1) " +
			"steps=4 reuse=blocks temperature=0.7"},
		{"fast-dllm-v2 reuse=blocks", "1", "sampler=fast-dllm-v2(temperature=1) reuse=blocks"},
		{"hybrid steps=32 cache=1", "0", "sampler=hybrid steps=32 cache=1 temperature=0"},
	} {
		base, err := generate.ParseRecipe(c.base)
		require.NoError(t, err)
		r, err := generate.Overrides{"temperature": c.temperature}.ApplyTo(base)
		require.NoError(t, err)
		require.Equal(t, c.want, r.String())
		again, err := generate.ParseRecipe(r.String())
		require.NoError(t, err)
		require.Equal(t, r.String(), again.String())
		again, err = generate.Overrides{"temperature": c.temperature}.ApplyTo(again)
		require.NoError(t, err)
		require.Equal(t, r.String(), again.String())
	}
}
