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

// Tuning is a search for the best settings within a time per sample.
type Tuning struct {
	Budget float64 // seconds a sample, of generation
	N      int     // samples of a setting in the last round
	Batch  int     // samples at once, whose time is shared
	Length int     // positions, 0 for the model's
	Seed   uint64
	Limit  time.Duration // of the whole search, 0 for none: what is found by then counts
}

// Setting is a point that was tried.
type Setting struct {
	Point   Point   `json:"point"`
	Seconds float64 `json:"seconds"` // a sample
	Metrics Metrics `json:"metrics"`
	Quality float64 `json:"quality"` // lower is better; see Quality
}

// Quality is what is minimised: a Frechet distance, or for text the logarithm of perplexity less
// entropyPrice nats for each nat of entropy, since perplexity alone rewards samples that repeat
// themselves.
func Quality(m Metrics) float64 {
	if d, ok := m["frechet"]; ok {
		return d.Value
	}
	return math.Log(m["perplexity"].Value) - entropyPrice*m["entropy"].Value
}

// entropyPrice is about what temperature sampling pays on the embedded model (Table.price finds 4
// to 8 there); at that price lowering the temperature alone gains nothing.
const entropyPrice = 5

// candidates returns the samplers of a search, without steps: the paper's and all that other
// packages registered.
func candidates(kind string, cached bool) []Point {
	list := []Point{{Sampler: "halton"}, {Sampler: "random"}}
	with := []string{"hybrid", "u-moment", "moment"} // a Gumbel temperature
	if kind == "image" {
		with = append(with, "maskgit")
	}
	for _, info := range samplers.List() {
		if info.Foreign && info.Name != fixedName {
			if usesAlpha(info.Name) {
				with = append(with, info.Name)
			} else {
				list = append(list, Point{Sampler: info.Name})
			}
		}
	}
	for _, alpha := range []float64{3, 6, 12} {
		for _, name := range with {
			list = append(list, Point{Sampler: name, Alpha: alpha})
		}
	}
	if !cached {
		return list
	}
	for _, p := range slices.Clone(list) {
		if uncached(p.Sampler) == "" {
			p.Cache = 1
			list = append(list, p)
		}
	}
	return list
}

// Tune searches sampler, steps, α and cache. It times each candidate's steps, tries it at the most
// steps that the budget allows, at half and at a quarter of them, with few samples, keeps the
// better half with twice the samples, and so on (successive halving, Jamieson & Talwalkar 2016).
// The settings of the last round come back, best first; those of earlier ones too where the search
// was cut short. progress, which may be nil, is called before each setting; false ends the search
// with what was found.
func Tune(ctx context.Context, t Task, o Tuning,
	progress func(done, total int, p Point) bool) ([]Setting, error) {
	spec := t.Model().Spec()
	length := cmp.Or(o.Length, spec.Length())
	_, cached := t.Model().(model.Refiner)
	deadline := time.Now().Add(o.Limit)
	var tries []Point
	for _, c := range candidates(t.Kind(), cached) {
		c.N, c.Batch, c.Length, c.Seed = o.Batch, o.Batch, o.Length, o.Seed
		most, err := affordable(ctx, t, c, o.Budget, length)
		if err != nil {
			return nil, err
		}
		for _, steps := range []int{most, most / 2, most / 4} {
			if steps >= 1 {
				c.Steps = steps
				tries = append(tries, c)
			}
		}
	}
	if len(tries) == 0 {
		return nil, fmt.Errorf("budget is %v seconds a sample, want more: no sampler takes a step in "+
			"it on this machine", o.Budget)
	}
	// The quick ones first: an end by Limit has then seen every sampler.
	slices.SortStableFunc(tries, func(a, b Point) int { return cmp.Compare(a.Steps, b.Steps) })
	var found []Setting
	n := min(max(o.N/8, 4), o.N)
	for {
		var round []Setting
		for i, p := range tries {
			late := o.Limit > 0 && time.Now().After(deadline) && len(round) > 0
			if late || progress != nil && !progress(i, len(tries), p) {
				return frontierFirst(append(round, found...)), nil
			}
			p.N, p.Batch = n, min(o.Batch, n)
			r, err := Run(ctx, t, p, nil)
			if err != nil {
				return nil, err
			}
			s := Setting{Point: p, Metrics: r.Metrics, Quality: Quality(r.Metrics),
				Seconds: slices.Min(r.Seconds) / float64(p.Batch)}
			if s.Seconds <= o.Budget || p.Steps == 1 {
				round = append(round, s)
			}
		}
		if len(round) == 0 {
			return nil, fmt.Errorf("nothing keeps within %v seconds a sample on this machine", o.Budget)
		}
		slices.SortStableFunc(round, func(a, b Setting) int { return cmp.Compare(a.Quality, b.Quality) })
		if n >= o.N || len(round) == 1 {
			return frontierFirst(round), nil
		}
		found = round
		tries = tries[:0]
		for _, s := range round[:max(1, len(round)/2)] {
			tries = append(tries, s.Point)
		}
		n = min(2*n, o.N)
	}
}

// affordable is the most steps that a sampler takes within the budget, by the time of its first
// steps; 0 if not one.
func affordable(ctx context.Context, t Task, p Point, budget float64, length int) (int, error) {
	var seconds float64
	p.Steps = min(8, length)
	stop := time.Now()
	steps := 0
	_, err := Run(ctx, t, p, func(float64) bool {
		steps++
		if steps == 1 { // it allocates
			stop = time.Now()
			return p.Steps > 1
		}
		seconds = time.Since(stop).Seconds() / float64(steps-1)
		return steps < 3
	})
	if err != nil && !errors.Is(err, ErrStopped) {
		return 0, err
	}
	if seconds == 0 {
		return 1, nil
	}
	return min(length, int(budget*float64(p.Batch)/seconds)), nil
}

// frontierFirst puts the best of each setting first: those of the most samples, by quality.
func frontierFirst(all []Setting) []Setting {
	slices.SortStableFunc(all, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(b.Point.N, a.Point.N), cmp.Compare(a.Quality, b.Quality))
	})
	return all
}

// Frontier are the settings that no other one beats in both time and quality, fastest first.
func Frontier(all []Setting) []Setting {
	byTime := slices.Clone(all)
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

// Command returns what generates with the setting on a model by its name, from the same seed, for a
// POSIX shell.
func (s Setting) Command(kind, name string, spec model.Spec) (string, error) {
	r, err := s.Point.Recipe()
	if err != nil {
		return "", err
	}
	r = r.For(spec)
	defaults := generate.Defaults(spec)
	args := []string{"unmask", kind, "--model", shell(name)}
	_, paced := samplers.As[samplers.SelfPaced](r.Sampler)
	for _, p := range generate.Params() {
		text := r.Get(p.Name)
		if paced && (p.Name == "steps" || p.Name == "schedule") {
			continue
		}
		if text == "" && defaults.Get(p.Name) != "" {
			text = "0" // which is not the command's default
		}
		values := []string{text}
		if p.Name == "bias" { // whose flag takes one value
			values = strings.Split(text, ",")
		}
		for _, value := range values {
			if value != "" {
				args = append(args, "--"+p.Name, shell(value))
			}
		}
	}
	args = append(args, "--seed", fmt.Sprint(s.Point.Seed), "--batch", fmt.Sprint(s.Point.Batch))
	if s.Point.Length > 0 {
		args = append(args, "--length", fmt.Sprint(s.Point.Length))
	}
	return strings.Join(args, " "), nil
}

// shell quotes an argument where a POSIX shell would change it.
func shell(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@=,+"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
