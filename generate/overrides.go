package generate

import (
	"maps"
	"slices"
	"strings"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Overrides are the parameters that replace those of a model's recipe, as text by name: those of
// Recipe.Set, and alpha and gamma, which belong to the sampler.
type Overrides map[string]string

// Overrides returns the fields of r that are not zero, so that a program sets numbers and samplers
// as such: Recipe{Steps: 32, Filter: model.Filter{Temperature: 0.7, TopK: 40}}.Overrides(). A 0
// that is meant stays a text: a["cache"] = "0". What cannot be, such as a negative temperature, is
// refused where the result is used.
func (r Recipe) Overrides() Overrides {
	a := Overrides{}
	for i := range table {
		if text := table[i].get(&r); text != "" {
			a[table[i].Name] = text
		}
	}
	f := r.Filter
	for name, x := range map[string]float64{"temperature": f.Temperature, "top-p": f.TopP} {
		if x == 1 { // no filter, which a recipe's text leaves out
			a[name] = "1"
		}
	}
	return a
}

// given are parameters of samplers that can be set beside those of a recipe.
var given = []param.Param{samplers.AlphaParam, samplers.GammaParam}

// Check returns an error for values that are wrong for every model.
func (a Overrides) Check() error {
	var r Recipe
	if err := a.read(&r, Recipe{}); err != nil {
		return err
	}
	if _, ok := a["sampler"]; ok {
		return a.sampler(&r, Recipe{})
	}
	return nil
}

// ApplyTo returns the recipe with the parameters in a and base's for the rest; base is a model's
// complete defaults, as Defaults returns them. A parameter of base that has no effect together with
// those in a is left out. A parameter in a that has no effect is an error, which begins with its
// name.
func (a Overrides) ApplyTo(base Recipe) (r Recipe, err error) {
	if err = a.read(&r, base); err == nil {
		err = a.sampler(&r, base)
	}
	if err == nil {
		err = a.temperature(&r)
	}
	if err == nil {
		err = a.dependent(&r)
	}
	return r, err
}

// temperature gives a sampler the temperature that was asked for. Where a sampler takes the most
// probable tokens, top-p and top-k could only spoil its confidences: they are refused or, with a
// temperature of 0, left out.
func (a Overrides) temperature(r *Recipe) (err error) {
	_, overridden := a["temperature"]
	if overridden {
		t, marginals := r.Filter.Temperature, 0.0
		if t == 0 && !r.Greedy {
			t = 1
		}
		if r.Sampler, marginals, err = samplers.WithTemperature(r.Sampler, t); err != nil {
			return err
		}
		if r.Filter.Temperature = marginals; marginals == 1 {
			r.Filter.Temperature = 0
		}
	}
	switch {
	case !samplers.TakesMostProbable(r.Sampler):
		return nil
	case overridden: // confidence is the model's own p
		r.Filter.TopP, r.Filter.TopK = 0, 0
		return nil
	}
	for _, name := range []string{"top-p", "top-k"} {
		if value := r.Get(name); value != "" && a[name] != "" {
			return &param.Error{Name: name, Found: value, Want: "none without a temperature: sampler " +
				r.Get("sampler") + " takes the most probable tokens", Reason: param.NoEffect}
		}
	}
	return nil
}

// Complete returns the recipe with the parameters in a and base's for the rest, complete for a
// model and a number of masked positions: steps are at most one for each position, and those that
// are not in a one at least for each block. The error is a *param.Error.
func (a Overrides) Complete(base Recipe, d model.Denoiser, free int) (Recipe, error) {
	r, err := a.ApplyTo(base)
	if err != nil {
		return r, err
	}
	if _, given := a["steps"]; !given {
		r.Steps = r.fewer(free)
	} else if most, bounded := r.useful(free); bounded {
		r.Steps = min(r.Steps, most)
	}
	return r.Complete(d, free)
}

// read sets all parameters except the sampler.
func (a Overrides) read(r *Recipe, base Recipe) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !slices.ContainsFunc(given, func(p param.Param) bool { return p.Name == name }) &&
			rowOf(name) == nil {
			return unknown(name, append(Params(), given...))
		}
	}
	for _, t := range table {
		text, overridden := a[t.Name]
		if !overridden {
			text = t.get(&base)
		}
		if t.Name == "sampler" || text == "" && !overridden {
			continue
		}
		if err := t.set(r, t.Param, text); err != nil {
			return param.WithName(t.Name, err)
		}
	}
	return nil
}

// sampler sets the sampler, with alpha and gamma, and the cache if the sampler allows one.
func (a Overrides) sampler(r *Recipe, base Recipe) (err error) {
	text, overridden := a["sampler"]
	_, cacheOverridden := a["cache"]
	if !overridden {
		text = base.Get("sampler")
	}
	name, once := strings.CutSuffix(text, cached)
	if once && !cacheOverridden {
		r.Cache = max(1, r.Cache)
	}
	if once && r.Cache == 0 {
		return &param.Error{Name: "cache", Found: "0", Want: "1 or more with sampler " + text,
			Reason: param.NoEffect}
	}
	var with []samplers.ParamValue
	for _, p := range given {
		value, ok := a[p.Name]
		if !ok {
			continue
		}
		x, err := p.Float(value)
		if err != nil {
			return err
		}
		switch {
		case !overridden: // base's value is dropped
			with = append(with, samplers.ReplaceParam(p.Name, x))
		case samplers.UsesParam(name, p.Name):
			with = append(with, samplers.WithParam(p.Name, x))
		}
	}
	if r.Sampler, err = samplers.Parse(name, with...); err != nil {
		return param.WithName("sampler", err)
	}
	for _, p := range given {
		if value, ok := a[p.Name]; ok && !samplers.UsesParam(name, p.Name) {
			why := " takes no " + p.Name
			if samplers.HasParam(name, p.Name) {
				if !overridden {
					continue
				}
				why = " has its own"
			}
			return &param.Error{Name: p.Name, Found: value, Want: "none: sampler " + text + why,
				Reason: param.NoEffect}
		}
	}
	if why := samplers.CacheRefusal(r.Sampler); why != "" && r.Cache > 0 {
		if once || cacheOverridden {
			return &param.Error{Name: "cache", Found: r.Get("cache"),
				Want: "0 with sampler " + name + ": " + why, Reason: param.NoEffect}
		}
		r.Cache = 0
	}
	return nil
}

// WithoutIgnored returns the recipe without the steps and the schedule that its sampler ignores,
// which Overrides refuse.
func (r Recipe) WithoutIgnored() Recipe {
	if r.Reuse == Blocks {
		return r
	}
	if samplers.Is[samplers.SelfPaced](r.Sampler) {
		r.Steps = 0
	}
	if !samplers.UsesSchedule(r.Sampler) {
		r.Schedule = nil
	}
	return r
}

// dependent removes parameters of base that act only together with another one, and refuses such
// parameters in a.
func (a Overrides) dependent(r *Recipe) (err error) {
	refused := func(name, want string) error {
		text, overridden := a[name]
		if !overridden || r.Get(name) == "" {
			return nil
		}
		return &param.Error{Name: name, Found: text, Want: want, Reason: param.NoEffect}
	}
	for _, p := range r.idle() {
		if err := refused(p.name, p.want); err != nil {
			return err
		}
		_ = r.Set(p.name, ParamOf(p.name).Default) // which stands for none
	}
	acting := r.WithoutIgnored()
	if acting.Steps != r.Steps {
		err = refused("steps", "none: sampler "+r.Get("sampler")+" takes the steps that it needs")
	}
	if err == nil && acting.Schedule == nil {
		err = refused("schedule", "none: sampler "+r.Get("sampler")+" decides how many open")
	}
	return err
}
