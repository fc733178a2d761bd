package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// samplingFlags fill a recipe.
type samplingFlags struct {
	recipe            generate.Recipe // what the flags of numbers and words set
	defaults          generate.Recipe
	sampler, schedule string
	alpha, gamma      float64
	n, batch          int
	seed              uint64
}

const (
	mostSamples = 1 << 30
	cacheSuffix = "+cache"
)

// register adds the flags, with the defaults of models of a kind.
func (s *samplingFlags) register(f *pflag.FlagSet, kind model.Spec) {
	s.defaults = generate.Defaults(kind)
	for _, p := range generate.Params() {
		def := s.defaults.Get(p.Name)
		switch p.Name {
		case "sampler":
			f.StringVar(&s.sampler, p.Name, def, p.Help)
			floatFlag(f, &s.alpha, samplers.AlphaParam)
			floatFlag(f, &s.gamma, samplers.GammaParam)
		case "schedule": // which may be a file
			f.StringVar(&s.schedule, p.Name, def, p.Help)
		case "ban", "bias": // in text, which the model's tokenizer reads
		default:
			if def == "" {
				def = p.Default
			}
			flag := recipeFlag(f, &s.recipe, p.Name, def)
			if p.Name == "cache" {
				flag.NoOptDefVal = "1"
			}
		}
	}
	intFlag(f, &s.n, "n", param.Param{Name: "n", Min: 1, Max: mostSamples, Default: "1",
		Help: "how many samples"})
	intFlag(f, &s.batch, "", param.Param{Name: "batch", Min: 1, Max: mostSamples,
		Zero: "a size by length and memory", Default: "0",
		Help: "samples at once, 0 to choose by length and a GPU's memory; the output does not depend " +
			"on it"})
	seedFlag(f, &s.seed, "same seed, same output")
}

// generation makes a run of the flags; f tells which were set.
func (s *samplingFlags) generation(f *pflag.FlagSet) (generate.Options, error) {
	o := generate.Options{N: s.n, Batch: s.batch, Seed: s.seed}
	r, err := s.asked(f)
	if err != nil {
		return o, err
	}
	if err := s.chooseSampler(f, &r); err != nil {
		return o, err
	}
	if r.Schedule, err = parseSchedule(s.schedule); err != nil {
		return o, usage("--schedule: %v", err)
	}
	switch {
	case f.Changed("refresh") && r.Refresh != 0 && r.Reuse != generate.Delayed:
		return o, usage("--refresh is %d, want 0 without --reuse dkv", r.Refresh)
	case r.Guidance.Schedule != "" && r.Guidance.Scale == 0:
		return o, usage("--guidance-schedule is %s, want none without --guidance", r.Guidance.Schedule)
	}
	return o.With(r), nil
}

// asked returns the recipe of the flags that were set and of the defaults of the others, without
// sampler and schedule.
func (s *samplingFlags) asked(f *pflag.FlagSet) (r generate.Recipe, err error) {
	for _, p := range generate.Params() {
		if p.Name == "sampler" || p.Name == "schedule" {
			continue
		}
		from := s.defaults
		if f.Changed(p.Name) {
			from = s.recipe
		}
		if text := from.Get(p.Name); text != "" {
			if err := r.Set(p.Name, text); err != nil {
				return r, err
			}
		}
	}
	if r.Reuse != generate.Blocks && !f.Changed("block-size") {
		r.BlockSize = 0
	}
	if r.Reuse != generate.Delayed && !f.Changed("refresh") {
		r.Refresh = 0
	}
	if r.Guidance.Scale == 0 && !f.Changed("guidance-schedule") {
		r.Guidance.Schedule = ""
	}
	return r, nil
}

// published makes the run again with the defaults of a model that brings its own.
func (s *samplingFlags) published(f *pflag.FlagSet, m *unmask.Model,
	o generate.Options) (generate.Options, error) {
	if m.Recipe == "" {
		return o, nil
	}
	var err error
	if s.defaults, err = m.Defaults(); err != nil {
		return o, err
	}
	if !f.Changed("sampler") {
		s.sampler = s.defaults.Get("sampler")
	}
	if !f.Changed("schedule") {
		s.schedule = s.defaults.Get("schedule")
	}
	r, err := s.generation(f)
	return o.With(r.Recipe()), err
}

// chooseSampler reads --sampler, with +cache, --alpha and --gamma.
func (s *samplingFlags) chooseSampler(f *pflag.FlagSet, r *generate.Recipe) (err error) {
	name, cached := strings.CutSuffix(s.sampler, cacheSuffix)
	if cached && !f.Changed("cache") {
		r.Cache = max(1, r.Cache)
	}
	if cached && r.Cache == 0 {
		return usage("--cache is 0 with --sampler %s, want one of the two", s.sampler)
	}
	var given []samplers.Given
	for _, g := range []struct {
		name  string
		value float64
	}{{"alpha", s.alpha}, {"gamma", s.gamma}} {
		if f.Changed(g.name) {
			given = append(given, samplers.With(g.name, g.value))
		}
	}
	if r.Sampler, err = samplers.Parse(name, given...); err != nil {
		return usage("--sampler: %v", err)
	}
	for _, flag := range []string{"alpha", "gamma"} {
		if f.Changed(flag) && !samplers.Takes(name, flag) {
			return usage("--%s is %s, want none: --sampler %s takes no %s", flag, f.Lookup(flag).Value,
				s.sampler, flag)
		}
	}
	if u, ok := samplers.As[samplers.Uncached](r.Sampler); ok && r.Cache > 0 {
		if cached || f.Changed("cache") {
			return usage("--cache with --sampler %s: %s", s.sampler, u.Uncached())
		}
		r.Cache = 0
	}
	return nil
}

// fitSteps lowers a step count that was not asked for to the number of positions to open.
func (s *samplingFlags) fitSteps(f *pflag.FlagSet, o *generate.Options, free int) {
	if !f.Changed("steps") {
		o.Steps = min(o.Steps, max(1, free))
	}
}
