// Package experiments measures samplers on a model: points of a sweep, the figures and the table
// of Hayakawa et al., 2025 ("Demystifying MaskGIT Sampler and Beyond") with a verdict on each of
// its claims, and the search for the best settings within a time.
package experiments

import (
	"context"
	"fmt"
	"strings"

	"unmask/generate"
	"unmask/internal/buildinfo"
	"unmask/internal/processor"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Point is one measurement of a sweep: a recipe, split into the parameters that figures
// distinguish, and the number of samples. Points are compared with ==, so a field is a number or a
// text.
type Point struct {
	// Sampler is as samplers.Parse reads it. Bits and Alpha are parameters of it, 0 if no rule has
	// them.
	Sampler string  `json:"sampler"`
	Bits    int     `json:"bits,omitempty"`
	Alpha   float64 `json:"alpha,omitempty"`

	Steps int `json:"steps"`
	Cache int `json:"cache,omitempty"`

	// Extra is the rest of the recipe, as generate.Recipe writes it.
	Extra string `json:"with,omitempty"`

	Seed  uint64 `json:"seed"`
	N     int    `json:"n"`
	Batch int    `json:"batch"`

	// Length is that of a text without the tokens around it, 0 for the model's default.
	Length int `json:"length,omitempty"`

	// FirstIndex is the index of the first sample.
	FirstIndex int `json:"first,omitempty"`
}

// String returns the point in one line.
func (p Point) String() string {
	return fmt.Sprintf("%s, %d steps, seed %d", p.Name(), p.Steps, p.Seed)
}

// Name returns the sampler with its parameters, except those on a curve's axis.
func (p Point) Name() string {
	s := p.Sampler
	if p.Cache > 0 {
		s += "+cache"
	}
	if p.Cache > 1 {
		s += fmt.Sprintf("(%d)", p.Cache)
	}
	if p.Bits > 0 {
		s += fmt.Sprintf(" %d bit", p.Bits)
	}
	if p.Alpha > 0 {
		s += fmt.Sprintf(" α=%g", p.Alpha)
	}
	if p.Extra != "" {
		s += " " + p.Extra
	}
	return s
}

// Recipe returns the point's recipe without a model's defaults.
func (p Point) Recipe() (generate.Recipe, error) {
	r, err := generate.ParseRecipe(p.Extra)
	if err != nil {
		return r, err
	}
	var params []samplers.ParamValue
	if p.Alpha != 0 {
		params = append(params, samplers.WithParam("alpha", p.Alpha))
	}
	if p.Bits != 0 {
		params = append(params, samplers.WithParam("bits", float64(p.Bits)))
	}
	r.Sampler, err = samplers.Parse(p.Sampler, params...)
	r.Steps = p.Steps
	r.Cache = p.Cache
	return r, err
}

// usesAlpha reports whether a sampler has a Gumbel temperature.
func usesAlpha(name string) bool { return samplers.UsesParam(name, "alpha") }

// Options returns the options that generate the point's samples on a model.
func (p Point) Options(s model.Spec) (generate.Options, error) {
	r, err := p.Recipe()
	length := s.DefaultLength()
	if p.Length != 0 {
		length = p.Length + s.SpecialCount()
	}
	request := generate.Request{Recipe: r, Seed: p.Seed, Length: length, Index: uint32(p.FirstIndex)}
	return generate.Options{Request: request, N: p.N, Batch: p.Batch}, err
}

// Check returns an error for a point that cannot run on a model.
func (p Point) Check(d model.Denoiser) error {
	o, err := p.Options(d.Spec())
	if err == nil {
		_, err = o.Check(d)
	}
	return param.AtPlace(p.String(), err)
}

// Task is a model and the judge of its samples.
type Task struct {
	// Kind is text, image or that of an exact law.
	Kind  string
	Model model.Denoiser

	// ModelRecipe is the recipe of the model's published run.
	ModelRecipe generate.Recipe

	// Scorer returns an empty scorer for n samples.
	Scorer func(n int) Scorer

	// Run measures a point in place of Scorer, for questions with right answers; nil where samples
	// are judged.
	Run func(ctx context.Context, p Point, progress func(share float64) bool) (Result, error)

	// Note is what the user should know about the task, "" for nothing.
	Note string
}

// Scorer judges a stream of samples in memory that does not grow with their number.
type Scorer interface {
	Add(ctx context.Context, tokens [][]int32) error
	Metrics(ctx context.Context) (Metrics, error)
}

// Result is a measured point, one line of results.jsonl.
type Result struct {
	Kind string `json:"kind"`
	Point

	// Recipe is all of the recipe, as it ran.
	Recipe string `json:"recipe,omitempty"`

	// Program is buildinfo.Version and Machine processor.Name, of the measurement.
	Program string `json:"program,omitempty"`
	Machine string `json:"machine,omitempty"`

	Metrics Metrics `json:"metrics"`

	// Seconds are those of generation, for each full batch. A last batch that is smaller would not
	// compare.
	Seconds []float64 `json:"batch_seconds"`

	// Passes, PartialRows (of tasks) and HeadRows are means of a sample. They are 0 in results of
	// versions that did not count them.
	Passes      float64 `json:"full_passes,omitempty"`
	PartialRows float64 `json:"partial_rows,omitempty"`
	HeadRows    float64 `json:"head_rows,omitempty"`

	// Answers are those to the tasks of a point.
	Answers []Answer `json:"answers,omitempty"`
}

// MeasurePoint generates the point's samples and judges them. progress, which may be nil, is called
// after each step with the finished fraction of the point; if it returns false Run stops with
// ErrStopped.
func MeasurePoint(ctx context.Context, t Task, p Point,
	progress func(share float64) bool) (Result, error) {
	r := Result{Kind: t.Kind, Point: p}
	var err error
	if t.Run != nil {
		r, err = t.Run(ctx, p, progress)
	} else {
		err = r.generate(ctx, t, progress)
	}
	r.Program, r.Machine = buildinfo.Version(), processor.Name()
	return r, err
}

// generate generates the samples of the result's point and judges them.
func (r *Result) generate(ctx context.Context, t Task, progress func(share float64) bool) error {
	o, err := r.Options(t.Model.Spec())
	if err != nil {
		return err
	}
	o, err = o.Check(t.Model)
	if err != nil {
		return err
	}
	r.Recipe = strings.Join(o.Recipe.DiffFrom(t.ModelRecipe), " ")
	scorer := t.Scorer(o.N)
	batches := float64((o.N + o.Batch - 1) / o.Batch)

	finished := 0.0 // batches
	seconds := 0.0  // of the current one
	for step, err := range generate.Run(ctx, t.Model, o) {
		if err != nil {
			return err
		}
		seconds += step.Seconds
		share := (finished + float64(step.N)/float64(max(step.Steps, 1))) / batches
		if progress != nil && !progress(share) {
			return ErrStopped
		}
		if !step.Done {
			continue
		}

		var tokens [][]int32
		for i := range step.Sequences {
			q := &step.Sequences[i]
			tokens = append(tokens, q.Tokens)
			r.Passes += float64(q.Work.Full)
			r.HeadRows += float64(q.Work.Head)
		}
		if err := scorer.Add(ctx, tokens); err != nil {
			return err
		}
		if len(tokens) == o.Batch {
			r.Seconds = append(r.Seconds, seconds)
		}
		finished++
		seconds = 0
	}
	r.Passes /= float64(o.N)
	r.HeadRows /= float64(o.N)
	r.Metrics, err = scorer.Metrics(ctx)
	return err
}
