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
	for i := range recipeParams {
		if text := recipeParams[i].get(&r); text != "" {
			a[recipeParams[i].Name] = text
		}
	}

	// 1 is no filter, which a recipe's text leaves out. Here it replaces a filter of the model's.
	if r.Filter.Temperature == 1 {
		a["temperature"] = "1"
	}
	if r.Filter.TopP == 1 {
		a["top-p"] = "1"
	}
	return a
}

// samplerParams are parameters of samplers that can be set beside those of a recipe.
var samplerParams = []param.Param{samplers.AlphaParam, samplers.GammaParam}

// Check returns an error for values that are wrong for every model.
func (a Overrides) Check() error {
	var r Recipe
	if err := a.setParams(&r, Recipe{}); err != nil {
		return err
	}
	if _, ok := a["sampler"]; ok {
		return a.setSampler(&r, Recipe{})
	}
	return nil
}

// ApplyTo returns the recipe with the parameters in a and base's for the rest; base is a model's
// complete defaults, as Defaults returns them. A parameter of base that has no effect together with
// those in a is left out, and so are its temperature and filters if a names a sampler, see Dropped.
// A parameter in a that has no effect is an error, which begins with its name: nobody should
// believe that it did something.
func (a Overrides) ApplyTo(base Recipe) (r Recipe, err error) {
	if err := a.setParams(&r, base); err != nil {
		return r, err
	}
	if err := a.setSampler(&r, base); err != nil {
		return r, err
	}
	if err := a.setTemperature(&r); err != nil {
		return r, err
	}
	return r, a.dropInactive(&r)
}

// Complete returns the recipe with the parameters in a and base's for the rest, complete for a
// model and a number of masked positions: steps are at most one for each position, and those that
// are not in a one at least for each block. The error is a *param.Error.
func (a Overrides) Complete(base Recipe, d model.Denoiser, masked int) (Recipe, error) {
	r, err := a.ApplyTo(base)
	if err != nil {
		return r, err
	}
	if _, overridden := a["steps"]; !overridden {
		r.Steps = r.defaultSteps(masked)
	} else if maxSteps, bounded := r.usefulSteps(masked); bounded {
		r.Steps = min(r.Steps, maxSteps)
	}
	return r.Complete(d, masked)
}

// ownParams are the parameters of a recipe that say how its own sampler draws and ends.
var ownParams = []string{"temperature", "top-p", "top-k", "end-at"}

// Dropped returns the parameters of base, as NAME=VALUE pairs, that a replaces by no temperature,
// no filter and settled ends because it names a sampler.
//
// A recipe's temperature belongs to its sampler: RND1's entropy at 0.1 and greedy(entropy) at 0.1
// are both of its authors' runs, but who names greedy(entropy) expects its order at temperature 1.
// The steps, the length and the blocks of a recipe say how much is done, and stay.
func (a Overrides) Dropped(base Recipe) (pairs []string) {
	if _, overridden := a["sampler"]; !overridden {
		return nil
	}
	for _, name := range ownParams {
		_, overridden := a[name]
		if text := base.Get(name); text != "" && !overridden {
			pairs = append(pairs, name+"="+text)
		}
	}
	return pairs
}

// setParams sets all parameters except the sampler.
func (a Overrides) setParams(r *Recipe, base Recipe) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		ofSampler := slices.ContainsFunc(samplerParams, func(p param.Param) bool {
			return p.Name == name
		})
		if !ofSampler && findParam(name) == nil {
			return unknownParam(name, append(Params(), samplerParams...))
		}
	}
	_, namesSampler := a["sampler"]
	for _, p := range recipeParams {
		if p.Name == "sampler" {
			continue
		}
		text, overridden := a[p.Name]
		if !overridden {
			text = p.get(&base)
			if text == "" || namesSampler && slices.Contains(ownParams, p.Name) {
				continue // a named sampler begins from its own, see Dropped
			}
		}
		if err := p.set(r, p.Param, text); err != nil {
			return param.WithName(p.Name, err)
		}
	}
	return nil
}

// setSampler sets the sampler, with alpha and gamma, and the cache if the sampler allows one.
func (a Overrides) setSampler(r *Recipe, base Recipe) (err error) {
	text, overridden := a["sampler"]
	if !overridden {
		text = base.Get("sampler")
	}

	// "moment+cache" asks for one intermediate stage, or as many as `cache` says.
	name, hasSuffix := strings.CutSuffix(text, cacheSuffix)
	_, cacheOverridden := a["cache"]
	if hasSuffix && !cacheOverridden {
		r.Cache = max(1, r.Cache)
	}
	if hasSuffix && r.Cache == 0 {
		return &param.Error{Name: "cache", Found: "0", Want: "1 or more with sampler " + text,
			Reason: param.NoEffect}
	}

	values, err := a.samplerValues(name)
	if err != nil {
		return err
	}
	if r.Sampler, err = samplers.Parse(name, values...); err != nil {
		return param.WithName("sampler", err)
	}
	if err := a.checkSamplerValues(name, text); err != nil {
		return err
	}

	why := samplers.CacheRefusal(r.Sampler)
	if why == "" || r.Cache == 0 {
		return nil
	}
	if hasSuffix || cacheOverridden {
		return &param.Error{Name: "cache", Found: r.Get("cache"),
			Want: "0 with sampler " + name + ": " + why, Reason: param.NoEffect}
	}
	r.Cache = 0 // it was base's
	return nil
}

// samplerValues returns the values in a of samplerParams, for samplers.Parse.
func (a Overrides) samplerValues(sampler string) (values []samplers.ParamValue, err error) {
	_, overridden := a["sampler"]
	for _, p := range samplerParams {
		text, ok := a[p.Name]
		if !ok {
			continue
		}
		x, err := p.Float(text)
		if err != nil {
			return nil, err
		}
		switch {
		case !overridden: // base's own value is replaced
			values = append(values, samplers.ReplaceParam(p.Name, x))
		case samplers.UsesParam(sampler, p.Name):
			values = append(values, samplers.WithParam(p.Name, x))
		}
	}
	return values, nil
}

// checkSamplerValues refuses values of samplerParams that the sampler does not use. text is what
// the sampler was called, with the suffix.
func (a Overrides) checkSamplerValues(sampler, text string) error {
	_, overridden := a["sampler"]
	for _, p := range samplerParams {
		value, ok := a[p.Name]
		if !ok || samplers.UsesParam(sampler, p.Name) {
			continue
		}
		why := " takes no " + p.Name
		if samplers.HasParam(sampler, p.Name) { // its text has a value of its own
			if !overridden {
				continue // which samplerValues replaced
			}
			why = " has its own"
		}
		return &param.Error{Name: p.Name, Found: value, Want: "none: sampler " + text + why,
			Reason: param.NoEffect}
	}
	return nil
}

// setTemperature gives a sampler the temperature that was asked for. Where a sampler takes the most
// probable tokens, top-p and top-k could only spoil its confidences: they are refused or, with a
// temperature in a, left out.
func (a Overrides) setTemperature(r *Recipe) error {
	_, overridden := a["temperature"]
	if overridden {
		temperature := r.Filter.Temperature
		if temperature == 0 && !r.Greedy {
			temperature = 1
		}
		sampler, remaining, err := samplers.WithTemperature(r.Sampler, temperature)
		r.Sampler = sampler
		if err != nil {
			return err
		}
		r.Filter.Temperature = remaining // what the sampler leaves to the marginals
		if remaining == 1 {
			r.Filter.Temperature = 0
		}
	}

	if !samplers.TakesMostProbable(r.Sampler) {
		return nil
	}
	if overridden { // confidence is the model's own p
		r.Filter.TopP = 0
		r.Filter.TopK = 0
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

// WithoutIgnored returns the recipe without the steps and the schedule that its sampler ignores,
// which Overrides refuse.
func (r Recipe) WithoutIgnored() Recipe {
	if r.Reuse == Blocks {
		return r // steps are for each block, whatever the sampler
	}
	if samplers.Is[samplers.SelfPaced](r.Sampler) {
		r.Steps = 0
	}
	if !samplers.UsesSchedule(r.Sampler) {
		r.Schedule = nil
	}
	return r
}

// dropInactive removes parameters of base that act only together with another one, and refuses
// such parameters in a.
func (a Overrides) dropInactive(r *Recipe) error {
	for _, p := range r.inactiveParams() {
		if err := a.refuseOverride(r, p.name, p.want); err != nil {
			return err
		}
		_ = r.Set(p.name, ParamOf(p.name).Default) // which stands for none
	}
	acting := r.WithoutIgnored()
	if acting.Steps != r.Steps {
		err := a.refuseOverride(r, "steps",
			"none: sampler "+r.Get("sampler")+" takes the steps that it needs")
		if err != nil {
			return err
		}
	}
	if acting.Schedule == nil {
		return a.refuseOverride(r, "schedule",
			"none: sampler "+r.Get("sampler")+" decides how many open")
	}
	return nil
}

// refuseOverride refuses a parameter of r that has no effect if it is in a; one of base's is no
// error, because nobody asked for it.
func (a Overrides) refuseOverride(r *Recipe, name, want string) error {
	text, overridden := a[name]
	if !overridden || r.Get(name) == "" {
		return nil
	}
	return &param.Error{Name: name, Found: text, Want: want, Reason: param.NoEffect}
}
