package cli

import (
	"context"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"unmask/generate"
	"unmask/samplers"
)

// samplingFlags choose what a run does.
type samplingFlags struct {
	sampler, schedule      string
	reuse                  string
	refresh                int
	steps, n, batch, cache int
	alpha, gamma           float64
	temperature, topP      float64
	topK                   int
	seed                   uint64
}

const mostSamples = 1 << 30

func (s *samplingFlags) register(f *pflag.FlagSet, sampler, schedule string, steps, cache int) {
	f.StringVar(&s.sampler, "sampler", sampler, "rule for what opens next, of those that unmask samplers lists; with parameters, moment(alpha=3), around others, semi-ar(hybrid), and partial caching, hybrid+cache")
	f.IntVar(&s.steps, "steps", steps, "denoising steps N")
	f.Float64Var(&s.alpha, "alpha", samplers.DefaultAlpha, "Gumbel temperature of maskgit, moment, u-moment, temp and hybrid")
	f.Float64Var(&s.gamma, "gamma", 1, "draw tokens from p^gamma, for orders: random, u-moment, halton, hybrid")
	f.StringVar(&s.schedule, "schedule", schedule, "how many open after each step: uniform, cosine, arccos, mage, or a .json of unmask schedule")
	f.IntVar(&s.cache, "cache", cache, "partial caching: intermediate stages a step, 0 for none; not for maskgit and vanilla")
	f.Lookup("cache").NoOptDefVal = "1"
	f.StringVar(&s.reuse, "reuse", "none", "keys and values taken from earlier steps: none, prefix or dual (with semi-ar), or dkv")
	f.IntVar(&s.refresh, "refresh", 0, "with --reuse dkv a full pass every so many steps, 0 for 8")
	f.IntVarP(&s.n, "n", "n", 1, "how many samples")
	f.IntVar(&s.batch, "batch", 0, "samples at once, 0 to choose by length and a GPU's memory; the output does not depend on it")
	f.Uint64Var(&s.seed, "seed", 0, "same seed, same output")
	f.Float64Var(&s.temperature, "temperature", 1, "draw from p^(1/temperature), normalised")
	f.Float64Var(&s.topP, "top-p", 1, "keep the most probable tokens that hold this much probability")
	f.IntVar(&s.topK, "top-k", 0, "keep the k most probable tokens, 0 for all")
}

// generation checks the flags and makes a run of them; f tells which were set.
func (s *samplingFlags) generation(f *pflag.FlagSet) (generate.Options, error) {
	name, cached := strings.CutSuffix(s.sampler, "+cache")
	o := generate.Options{Steps: s.steps, Cache: s.cache, Refresh: s.refresh, N: s.n, Batch: s.batch, Seed: s.seed}
	if cached && !f.Changed("cache") {
		o.Cache = 1
	}
	switch {
	case cached && o.Cache == 0:
		return o, usage("--cache 0 with --sampler %s, allowed is one of them", s.sampler)
	case s.refresh < 0:
		return o, usage("--refresh is %d, allowed are 0 (every 8 steps) and up", s.refresh)
	case s.n < 1 || s.n > mostSamples:
		return o, usage("-n is %d, allowed are 1..%d", s.n, mostSamples)
	case s.steps < 1:
		return o, usage("--steps is %d, allowed are 1 to the length", s.steps)
	case s.batch < 0:
		return o, usage("--batch is %d, allowed are 0 (by length) and up", s.batch)
	case !(s.alpha > 0) || math.IsInf(s.alpha, 0):
		return o, usage("--alpha is %v, allowed are numbers above 0", s.alpha)
	case !(s.gamma > 0) || math.IsInf(s.gamma, 0):
		return o, usage("--gamma is %v, allowed are numbers above 0", s.gamma)
	case !(s.temperature > 0) || math.IsInf(s.temperature, 0):
		return o, usage("--temperature is %v, allowed are numbers above 0", s.temperature)
	case !(s.topP > 0 && s.topP <= 1):
		return o, usage("--top-p is %v, allowed are numbers above 0, to 1", s.topP)
	case s.topK < 0:
		return o, usage("--top-k is %d, allowed are 0 (all) and up", s.topK)
	}
	var err error
	if o.Sampler, err = samplers.Parse(name, samplers.With("alpha", s.alpha), samplers.With("gamma", s.gamma)); err != nil {
		return o, usage("--sampler: %v", err)
	}
	if o.Schedule, err = parseSchedule(s.schedule); err != nil {
		return o, usage("--schedule: %v", err)
	}
	if o.Reuse, err = generate.ParseReuse(s.reuse); err != nil {
		return o, usage("--reuse: %v", err)
	}
	if u, ok := samplers.As[samplers.Uncached](o.Sampler); ok && o.Cache > 0 {
		if cached || f.Changed("cache") {
			return o, usage("--cache with --sampler %s: %s", s.sampler, u.Uncached())
		}
		o.Cache = 0
	}
	if s.temperature != 1 {
		o.Filter.Temperature = s.temperature
	}
	if s.topP != 1 {
		o.Filter.TopP = s.topP
	}
	o.Filter.TopK = s.topK
	return o, nil
}

// fitSteps lowers a step count that was not asked for to the number of positions to open.
func (s *samplingFlags) fitSteps(f *pflag.FlagSet, o *generate.Options, free int) {
	if !f.Changed("steps") {
		o.Steps = min(o.Steps, max(1, free))
	}
}

// interruptible ends a run after the step in which the first interrupt came.
func interruptible(ctx context.Context, steps func(yield func(*generate.Step, error) bool)) func(yield func(*generate.Step, error) bool) {
	return func(yield func(*generate.Step, error) bool) {
		for step, err := range steps {
			if !yield(step, err) || err != nil {
				return
			}
			if stopped(ctx) {
				yield(step, errInterrupted)
				return
			}
		}
	}
}
