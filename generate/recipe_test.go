package generate_test

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

// drawRecipe draws the text of a random recipe with any parameters.
func drawRecipe(t *rapid.T) string {
	var parts []string
	for _, p := range generate.Params() {
		if !rapid.Bool().Draw(t, p.Name) {
			continue
		}
		var value string
		switch {
		case p.Name == "sampler":
			value = rapid.SampledFrom([]string{"hybrid", "maskgit(alpha=4.5)",
				"semi-ar(eb(margin, budget=0.5),block=8)", "halton(gamma=1.5)", "moment+cache"}).Draw(t,
				"sampler")
		case p.Name == "schedule":
			value = rapid.SampledFrom([]string{"uniform", "mage", "times(0.75,0.5,0)"}).Draw(t, "schedule")
		case p.Name == "ban":
			value = strings.Trim(strings.ReplaceAll(fmt.Sprint(rapid.SliceOfN(rapid.Int32Range(0, 1<<30), 1,
				5).Draw(t, "ban")), " ", ","), "[]")
		case p.Name == "bias":
			for token, b := range rapid.MapOfN(rapid.Int32Range(0, 1<<30), rapid.Float32(), 1, 4).Draw(t,
				"bias") {
				value += "," + fmt.Sprintf("%d=%v", token, b)
			}
			value = value[1:]
		case len(p.Words) > 0:
			value = rapid.SampledFrom(p.Words).Draw(t, "word")
		case p.Kind == param.Whole:
			value = strconv.Itoa(rapid.IntRange(int(p.Min), int(p.Max)).Draw(t, "whole"))
		default:
			value = fmt.Sprint(rapid.Float64Range(p.Min, p.Max).Draw(t, "number"))
		}
		parts = append(parts, p.Name+"="+value)
	}
	return strings.Join(parts, " ")
}

func TestRecipeIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRecipe(t)
		r, err := generate.ParseRecipe(text)
		require.NoError(t, err, text)
		again, err := generate.ParseRecipe(r.String())
		require.NoError(t, err, r.String())
		require.Equal(t, r, again)
		require.Equal(t, r.String(), again.String())
		for _, spec := range []model.Spec{{Shape: []int{64}}, {Shape: []int{8, 8}}} {
			full := r.WithDefaults(spec)
			again, err := generate.ParseRecipe(full.String())
			require.NoError(t, err)
			require.Equal(t, full, again)
		}
	})
}

func TestRecipeText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "",
		"hybrid+cache":                          "sampler=hybrid cache=1",
		"eb(margin, budget=0.5)  steps=8":       "sampler=eb(margin,budget=0.5) steps=8",
		"sampler=hybrid() cache=1":              "sampler=hybrid cache=1",
		"steps=4 temperature=1 top-p=1.0":       "steps=4",
		"ban=3,1,3 bias=5=1.5,2=-Inf,9=0":       "ban=1,3 bias=2=-Inf,5=1.5",
		"reuse=none refresh=0 top-k=0":          "",
		"guidance=4.5 guidance-schedule=linear": "guidance=4.5 guidance-schedule=linear",
	} {
		r, err := generate.ParseRecipe(text)
		require.NoError(t, err, text)
		require.Equal(t, want, r.String())
	}
	long := strings.Repeat("9", 100_000)
	for text, want := range map[string]string{
		"steps=0":              "steps is 0, want 1 to 1048576",
		"steps=x":              `steps is "x", want a whole number, 1 to 1048576`,
		"temperature=1e-9":     "temperature is 1e-09, want 0.001 to 1000",
		"top-p=0":              "top-p is 0, want 1e-09 to 1",
		"top-k=-1":             "top-k is -1, want 1 to 1073741824, or 0 for all",
		"reuse=dula":           `generate: unknown reuse "dula" (did you mean dual?), want one of block-dkv, blocks, causal, dkv, dual, finished, none, prefix`,
		"stpes=4":              `unknown parameter "stpes" (did you mean steps?)`,
		"hybrid 4":             `recipe has "4", want NAME=VALUE`,
		"steps=4 steps=5":      `recipe has "steps" twice, want it once`,
		"ban=x":                `ban is "x", want token ids`,
		"bias=3":               `bias is "3", want TOKEN=NUMBER`,
		"bias=3=NaN":           `bias is "3=NaN", want TOKEN=NUMBER`,
		"guidance-schedule=up": `guidance-schedule is "up", want constant, linear, ramp, cosine or power-cosine`,
		"steps=" + long:        `steps is "9999`,
		"ban=" + long:          `ban is "9999`,
	} {
		_, err := generate.ParseRecipe(text)
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 400)
	}
}

// Every field of a recipe has a parameter.
func TestParametersCoverTheRecipe(t *testing.T) {
	r, err := generate.ParseRecipe("sampler=moment schedule=mage steps=3 cache=2 reuse=dkv " +
		"block-size=4 refresh=4 window=3 window-sigma=2 end-penalty=3 end-at=open temperature=0.5 top-p=0.5 top-k=3 ban=1 bias=2=3 guidance=2 " +
		"guidance-schedule=linear")
	require.NoError(t, err)
	r.Greedy = true // temperature 0, in place of another
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
}

// Check refuses what Run refuses, with the same error; its defaults give the same run.
func TestCheckRefusesWhatRunRefuses(t *testing.T) {
	d := exact.NewDenoiser(exactModel(t, "markov:length=12,tokens=3"))
	for want, o := range map[string]generate.Options{
		"steps is 99": {Request: generate.Request{Recipe: generate.Recipe{Steps: 99}}},
		"steps is 2": {Request: generate.Request{Recipe: generate.Recipe{
			Steps:   2,
			Sampler: samplers.SemiAR{Block: 4},
		}}},
		"refresh is 4": {Request: generate.Request{Recipe: generate.Recipe{Refresh: 4}}},
		"generate: guidance is 3, want 0: this model takes no condition":    {Request: generate.Request{Recipe: generate.Recipe{Guidance: generate.Guidance{Scale: 3}}}},
		"generate: guidance-schedule is linear, want none without guidance": {Request: generate.Request{Recipe: generate.Recipe{Guidance: generate.Guidance{Schedule: "linear"}}}},
		"moment: alpha is 1e-308": {Request: generate.Request{Recipe: generate.Recipe{
			Sampler: samplers.Moment{Alpha: 1e-308},
			Steps:   2,
		}}},
		"generate: no cache with this sampler: maskgit draws tokens before it chooses positions": {Request: generate.Request{Recipe: generate.Recipe{Sampler: samplers.MaskGIT{}, Cache: 1}}},
	} {
		_, err := o.Check(d)
		refusal.RequireText(t, err, want)
		for _, again := range generate.Run(context.Background(), d, o) {
			require.Equal(t, err, again)
		}
	}
	o, err := generate.Options{}.Check(d)
	require.NoError(t, err)
	require.Equal(t, "sampler=hybrid schedule=uniform steps=12", o.String())
	again, err := o.Check(d)
	require.NoError(t, err)
	require.Equal(t, o.Recipe, again.Recipe)
}

func TestDefaultsOfKinds(t *testing.T) {
	require.Equal(t, "sampler=hybrid schedule=uniform steps=32 cache=1",
		generate.Defaults(model.Spec{Shape: []int{256}}).String())
	require.Equal(t, "sampler=moment schedule=cosine steps=16 cache=1",
		generate.Defaults(model.Spec{Shape: []int{16, 16}}).String())
}

// Both Adjust functions run, the filter's first.
func TestBothAdjustsRun(t *testing.T) {
	d := exact.NewDenoiser(exactModel(t, "markov:length=4,tokens=3"))
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{
		Sampler: samplers.ChooseThenSample{Order: samplers.Halton{}}}}}
	o.Filter.Adjust = func(_ int32, logits []float32) { logits[0] = -1e9 }
	o.Adjust = func(_ int, logits []float32) {
		require.Equal(t, float32(-1e9), logits[0])
		logits[1] = -1e9
	}
	for _, tokens := range collect(t, d, o) {
		require.Equal(t, []int32{2, 2, 2, 2}, tokens)
	}
}

func FuzzParseRecipe(f *testing.F) {
	for _, s := range []string{"hybrid+cache steps=4", "sampler=eb(margin, budget=1) top-p=0.5",
		"ban=1,2 bias=3=1",
		"schedule=times(0.5,0)", "steps", "=", "a=b=c", "sampler=(=) (",
		"guidance=3 guidance-schedule=linear"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := generate.ParseRecipe(text)
		if err != nil {
			require.Less(t, len(err.Error()), 2000)
			return
		}
		again, err := generate.ParseRecipe(r.String())
		require.NoError(t, err)
		require.Equal(t, r.String(), again.String())
		require.Equal(t, r.String(), again.String())
	})
}
