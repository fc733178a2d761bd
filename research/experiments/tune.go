package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// Tuning describes a search for the best settings within a time per sample.
type Tuning struct {
	// Budget is the time of a sample's generation, in seconds.
	Budget float64

	// N is the number of samples of a setting in the last round.
	N int

	// Batch is the number of samples that are made at once and share the time.
	Batch int

	// Length is the number of positions, 0 for the model's.
	Length int

	Seed uint64

	// Limit bounds the whole search, 0 for no bound. The settings found by then are returned.
	Limit time.Duration

	// Begin, if not nil, is called before the first setting is measured, with the number of settings
	// to try and about the time that all rounds take, without Limit.
	Begin func(settings int, about time.Duration)
}

// Setting is a point that was tried.
type Setting struct {
	Point   Point   `json:"point"`
	Seconds float64 `json:"seconds"` // a sample
	Metrics Metrics `json:"metrics"`
	Quality float64 `json:"quality"` // lower is better; see the function Quality
}

// Quality returns what Tune minimises: a Frechet distance or, for text, the logarithm of perplexity
// minus entropyPrice times the entropy in nats, because perplexity alone rewards samples that
// repeat themselves.
func Quality(m Metrics) float64 {
	if d, ok := m["frechet"]; ok {
		return d.Value
	}
	return math.Log(m["perplexity"].Value) - entropyPrice*m["entropy"].Value
}

// entropyPrice is about the cost of entropy under temperature sampling on the embedded model
// (Table.price finds 4 to 8 there), so that a lower temperature alone gains nothing.
const entropyPrice = 5

// candidates returns the samplers to search, without steps: the paper's and those that other
// packages registered, with each of the schedules where it has an effect.
func candidates(kind string, cached bool, schedules []string) []Point {
	var out []Point
	for _, p := range candidateMethods(kind, cached) {
		if s, err := samplers.Parse(p.Sampler); err != nil || !samplers.UsesSchedule(s) {
			out = append(out, p)
			continue
		}
		for _, name := range schedules {
			p.Extra = "schedule=" + name
			out = append(out, p)
		}
	}
	return out
}

// candidateMethods returns the candidates without schedules.
func candidateMethods(kind string, cached bool) []Point {
	list := []Point{{Sampler: "halton"}, {Sampler: "random"}}
	alphaRules := []string{"hybrid", "u-moment", "moment"} // a Gumbel temperature
	if kind == "image" {
		alphaRules = append(alphaRules, "maskgit")
	}
	for _, info := range samplers.List() {
		if info.Foreign && info.Name != fixedName {
			if usesAlpha(info.Name) {
				alphaRules = append(alphaRules, info.Name)
			} else {
				list = append(list, Point{Sampler: info.Name})
			}
		}
	}
	for _, alpha := range []float64{3, 6, 12} {
		for _, name := range alphaRules {
			list = append(list, Point{Sampler: name, Alpha: alpha})
		}
	}
	if !cached {
		return list
	}
	for _, p := range slices.Clone(list) {
		if cacheRefusal(p.Sampler) == "" {
			p.Cache = 1
			list = append(list, p)
		}
	}
	return list
}

// Tune searches sampler, steps, α and cache by successive halving (Jamieson & Talwalkar 2016). It
// times each candidate's steps and tries it, with few samples, at the most steps within the budget
// and at half and a quarter of them; it keeps the better half with twice the samples, and so on.
// Tune returns the settings of the last round, best first, and those of earlier rounds too if the
// search was cut short. progress, which may be nil, is called before each setting; if it returns
// false the search ends with what was found.
func Tune(ctx context.Context, t Task, o Tuning,
	progress func(done, total int, p Point) bool) ([]Setting, error) {
	deadline := time.Now().Add(o.Limit)
	tries, seconds, err := firstTries(ctx, t, o)
	if err != nil {
		return nil, err
	}
	n := min(max(o.N/8, 4), o.N)
	if o.Begin != nil {
		total := seconds * samplesOfRounds(n, o.N, len(tries))
		o.Begin(len(tries), time.Duration(total*float64(time.Second)))
	}
	var earlier []Setting
	for {
		var round []Setting
		last := n >= o.N
		for i, p := range tries {
			outOfTime := o.Limit > 0 && time.Now().After(deadline) && len(round) > 0
			if outOfTime || progress != nil && !progress(i, len(tries), p) {
				return sortByQuality(append(round, earlier...)), nil
			}
			p.N = n
			p.Batch = min(o.Batch, n)
			r, err := MeasurePoint(ctx, t, p, nil)
			if err != nil {
				return nil, err
			}
			s := Setting{
				Point:   p,
				Metrics: r.Metrics,
				Quality: Quality(r.Metrics),
				Seconds: slices.Min(r.Seconds) / float64(p.Batch),
			}
			if s.Seconds <= o.Budget || p.Steps == 1 {
				round = append(round, s)
			}
		}
		if len(round) == 0 {
			return nil, fmt.Errorf("nothing keeps within %v seconds a sample on this machine", o.Budget)
		}
		slices.SortStableFunc(round, func(a, b Setting) int { return cmp.Compare(a.Quality, b.Quality) })
		if last || len(round) == 1 {
			return sortByQuality(round), nil
		}
		earlier = round
		tries = tries[:0]
		for _, s := range round[:max(1, len(round)/2)] {
			tries = append(tries, s.Point)
		}
		n = min(2*n, o.N)
	}
}

// samplesOfRounds returns the samples that all rounds together make for each setting of the first
// one, which has n: every round has half of the settings and twice the samples, so it makes as
// many.
func samplesOfRounds(n, final, settings int) float64 {
	count := 1
	for k := n; k < final && settings > 1; k *= 2 {
		settings /= 2
		count++
	}
	return float64(count * n)
}

// firstTries returns the settings of the first round. Fast ones are first, so that every sampler
// has been tried when Limit ends the search. seconds is about the time of one sample of each.
func firstTries(ctx context.Context, t Task, o Tuning) (tries []Point, seconds float64, err error) {
	spec := t.Model.Spec()
	length := cmp.Or(o.Length, spec.DefaultLength()-spec.SpecialCount())
	_, cached := t.Model.(model.Refiner)
	schedules := []string{"uniform", "cosine"}
	schedule := t.ModelRecipe.Get("schedule")
	if schedule != "" && !slices.Contains(schedules, schedule) {
		schedules = append(schedules, schedule)
	}
	for _, c := range candidates(t.Kind, cached, schedules) {
		c.N = o.Batch
		c.Batch = o.Batch
		c.Length = o.Length
		c.Seed = o.Seed
		maxSteps, step, err := affordableSteps(ctx, t, c, o.Budget, length)
		if err != nil {
			return nil, 0, err
		}
		for _, steps := range []int{maxSteps, maxSteps / 2, maxSteps / 4} {
			if steps >= 1 {
				c.Steps = steps
				tries = append(tries, c)
				seconds += step * float64(steps)
			}
		}
	}
	if len(tries) == 0 {
		return nil, 0, fmt.Errorf("budget is %v seconds a sample, want more: one step of any sampler "+
			"takes longer on this machine", o.Budget)
	}
	slices.SortStableFunc(tries, func(a, b Point) int { return cmp.Compare(a.Steps, b.Steps) })
	return tries, seconds, nil
}

// affordableSteps returns the most steps of a sampler within the budget, 0 if not even one fits,
// and the seconds of a step for each sample of a batch. Both are estimated from its first steps.
func affordableSteps(ctx context.Context, t Task, p Point, budget float64,
	length int) (maxSteps int, seconds float64, err error) {
	p.Steps = min(8, length)
	began := time.Now()
	steps := 0
	_, err = MeasurePoint(ctx, t, p, func(float64) bool {
		steps++
		if steps == 1 { // the first call allocates
			began = time.Now()
			return p.Steps > 1
		}
		seconds = time.Since(began).Seconds() / float64(steps-1)
		return steps < 3
	})
	if err != nil && !errors.Is(err, ErrStopped) {
		return 0, 0, err
	}
	if seconds == 0 {
		return 1, budget, nil
	}
	seconds /= float64(p.Batch)
	return min(length, int(budget/seconds)), seconds, nil
}

// sortByQuality sorts the best result of each setting first: those with the most samples, by
// quality.
func sortByQuality(settings []Setting) []Setting {
	slices.SortStableFunc(settings, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(b.Point.N, a.Point.N), cmp.Compare(a.Quality, b.Quality))
	})
	return settings
}

// Frontier returns the settings that no other one beats in both time and quality, fastest first.
func Frontier(settings []Setting) []Setting {
	byTime := slices.Clone(settings)
	slices.SortStableFunc(byTime, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), cmp.Compare(a.Quality, b.Quality))
	})
	var out []Setting
	best := math.Inf(1)
	for _, s := range byTime {
		if s.Quality < best {
			best = s.Quality
			out = append(out, s)
		}
	}
	return out
}

// Command returns a POSIX shell command that generates with the setting on the model with this
// name and this recipe of its own, from the same seed.
func (s Setting) Command(kind, name string, spec model.Spec,
	published generate.Recipe) (string, error) {
	r, err := s.Point.Recipe()
	if err != nil {
		return "", err
	}
	args := []string{"unmask", kind, "--model", quoteShell(name)}
	for _, pair := range r.WithDefaults(spec).DiffFrom(published) {
		name, text, _ := strings.Cut(pair, "=")
		values := []string{text}
		if name == "bias" { // its flag takes one value at a time
			values = strings.Split(text, ",")
		}
		for _, value := range values {
			args = append(args, "--"+name, quoteShell(value))
		}
	}
	args = append(args, "--seed", fmt.Sprint(s.Point.Seed), "--batch", fmt.Sprint(s.Point.Batch))
	if s.Point.Length > 0 {
		args = append(args, "--length", fmt.Sprint(s.Point.Length))
	}
	return strings.Join(args, " "), nil
}

// quoteShell quotes an argument if a POSIX shell would change it.
func quoteShell(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@=,+"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
