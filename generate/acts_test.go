package generate_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

// trial returns what a recipe with changes writes on an exact model, or why it is refused.
func trial(t *testing.T, changes generate.Overrides) (string, error) {
	d := exact.NewDenoiser(exactModel(t, "hmm:length=24,tokens=6,hidden=3"))
	base, err := generate.ParseRecipe("sampler=random steps=6")
	require.NoError(t, err)
	r, err := changes.Complete(base, d, 24)
	if err != nil {
		return "", err
	}
	return written(t, d, r)
}

// written returns what a recipe writes.
func written(t *testing.T, d model.Denoiser, r generate.Recipe) (string, error) {
	shown := ""
	for step, err := range generate.Run(t.Context(), d,
		generate.Options{Request: generate.Request{Recipe: r, Seed: 5, Length: 24}, N: 3}) {
		if err != nil {
			return "", err
		}
		for _, q := range step.Sequences {
			shown += fmt.Sprint(q.Tokens, q.Opened)
		}
	}
	return shown, nil
}

// A rule in Go whose fields are zero does what its name alone does as text.
func TestZeroFieldsAreDefaults(t *testing.T) {
	d := exact.NewDenoiser(exactModel(t, "hmm:length=24,tokens=6,hidden=3"))
	for _, info := range samplers.List() {
		base, err := generate.ParseRecipe("steps=6 sampler=" + info.Name)
		require.NoError(t, err, info.Name)
		r, err := generate.Overrides{}.Complete(base, d, 24)
		if err != nil {
			require.Contains(t, elsewhere, info.Name, err)
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			want, err := written(t, d, r)
			require.NoError(t, err)
			r.Sampler = zeroed(reflect.ValueOf(r.Sampler)).Interface().(samplers.Sampler)
			got, err := written(t, d, r)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// zeroed returns a rule without its parameters, and so the rules within it.
func zeroed(rule reflect.Value) reflect.Value {
	c := reflect.New(rule.Type()).Elem()
	c.Set(rule)
	for i := range c.NumField() {
		switch f := c.Field(i); {
		case rule.Type().Field(i).Tag.Get("param") != "":
			f.SetZero()
		case f.Kind() == reflect.Interface && !f.IsNil():
			f.Set(zeroed(f.Elem()))
		}
	}
	return c
}

// A schedule changes what a rule writes, or is refused with it.
func TestSchedulesAct(t *testing.T) {
	for _, info := range samplers.List() {
		t.Run(info.Name, func(t *testing.T) {
			one, err := trial(t, generate.Overrides{"sampler": info.Name, "schedule": "uniform"})
			if err != nil {
				refusal.RequireText(t, err, "schedule is uniform")
				return
			}
			other, err := trial(t, generate.Overrides{"sampler": info.Name, "schedule": "cosine"})
			require.NoError(t, err)
			require.NotEqual(t, one, other)
		})
	}
}

// other returns a value of a parameter that is far from its default.
func other(p param.Param) string {
	if p.Kind == param.Word {
		for _, w := range p.Words {
			if w != p.Default {
				return w
			}
		}
	}
	return param.Format(p.Max)
}

// beside are parameters without which others of their rule have no effect.
var beside = map[string]string{"semi-ar/even": "block=7,", "klass/kappa": "confidence=0.2,",
	"wino/narrow": "wide=0.3,", "pc/clip": "lambda=0.001,", "multi-block/add": "block=4,",
	"remdm/kappa": "strategy=psi,", "remdm/from": "strategy=psi,kappa=0.5,",
	"remdm/to": "strategy=psi,kappa=0.5,", "gibbs/tau": "by=past,",
	"spaced/stride": "threshold(theta=0.2),"}

// elsewhere are the rules that do something on other models only, whose packs' golden runs hold
// their parameters.
var elsewhere = map[string]string{
	"fast-dllm-v2":         "models of blocks",
	"edit":                 "models that may doubt a known token",
	"self-speculation":     "models that also read left to right",
	"s2d2/cost":            "models of blocks",
	"multi-block/activate": "blocks that see each other: golden runs of the pack decoders-2",
	"multi-block/delay":    "caches: generate's tests of reuse finished",
	"dreamon":              "tokens that grow and shrink",
	"daedal":               "models with an end",
	"rho-eos":              "models with an end",
	"omnivoice":            "codebooks",
	"codebooks":            "codebooks",
}

// Each parameter of each rule changes what the rule writes.
func TestParametersAct(t *testing.T) {
	for _, info := range samplers.List() {
		if elsewhere[info.Name] != "" {
			continue
		}
		for _, p := range info.Params {
			if elsewhere[info.Name+"/"+p.Name] != "" {
				continue
			}
			t.Run(info.Name+"/"+p.Name, func(t *testing.T) {
				with := beside[info.Name+"/"+p.Name]
				usual, err := trial(t, generate.Overrides{"sampler": info.Name + "(" +
					strings.TrimSuffix(with, ",") + ")"})
				require.NoError(t, err)
				for _, value := range []string{other(p), param.Format(p.Min)} {
					text := fmt.Sprintf("%s(%s%s=%s)", info.Name, with, p.Name, value)
					changed, err := trial(t, generate.Overrides{"sampler": text})
					if err != nil || changed != usual {
						return
					}
				}
				t.Errorf("neither %s nor %s changes anything", other(p), param.Format(p.Min))
			})
		}
	}
}

// eager are settings by which rules open several positions a step here, so that a cache has an
// effect.
var eager = map[string]string{"eb": "(budget=4)", "threshold": "(theta=0.2)", "factor": "(f=9)",
	"entropy-threshold": "(entropy=3)", "spaced": "(threshold(theta=0.2))",
	"multi-block": "(entropy=3)", "frechet": "(margin=-1)"}

// A parameter of a recipe changes what each rule writes, or is refused with it.
func TestRecipesAct(t *testing.T) {
	for _, info := range samplers.List() {
		rule := info.Name + eager[info.Name]
		usual, err := trial(t, generate.Overrides{"sampler": rule})
		if err != nil {
			require.Contains(t, elsewhere, info.Name, err)
			continue
		}
		for name, value := range map[string]string{"temperature": "0.2", "top-k": "1", "top-p": "0.3",
			"cache": "2", "ban": "0,1", "bias": "2=9", "end-penalty": "50", "guidance": "2",
			"steps": "3", "window": "2"} {
			t.Run(info.Name+"/"+name, func(t *testing.T) {
				changed, err := trial(t, generate.Overrides{"sampler": rule, name: value})
				if err == nil {
					require.NotEqual(t, usual, changed)
				}
			})
		}
	}
}

// What a run's line says of its recipe is taken beside another recipe, and makes the same run.
func TestBeside(t *testing.T) {
	own, err := generate.ParseRecipe("hybrid schedule=cosine steps=8 cache=1 top-p=0.9 guidance=2")
	require.NoError(t, err)
	for _, info := range samplers.List() {
		t.Run(info.Name, func(t *testing.T) {
			ran, err := generate.ParseRecipe(info.Name + " schedule=uniform steps=4 top-k=3")
			require.NoError(t, err)
			a := generate.Overrides{}
			for _, pair := range ran.DiffFrom(own) {
				name, value, _ := strings.Cut(pair, "=")
				a[name] = value
			}
			if samplers.TakesMostProbable(ran.Sampler) {
				delete(a, "top-p")
				delete(a, "top-k")
			}
			again, err := a.ApplyTo(own)
			require.NoError(t, err)
			require.Equal(t, ran.WithoutIgnored().Get("steps"), a["steps"])
			require.Equal(t, ran.WithoutIgnored().Get("schedule"), a["schedule"])
			require.Equal(t, ran.Sampler, again.Sampler)
			require.Equal(t, []any{0, 0.0}, []any{again.Cache, again.Guidance.Scale})
		})
	}
}
