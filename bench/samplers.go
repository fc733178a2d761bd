package bench

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"unmask/backend"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// rules returns the measurements of all samplers on LM12.
func rules() []Measurement {
	var out []Measurement
	names := []string{"vanilla(bits=32)"}
	for _, info := range samplers.List() {
		names = append(names, info.Name)
	}
	for _, name := range names {
		sampler, err := samplers.Parse(name)
		if err != nil {
			panic("bench: " + err.Error())
		}
		out = append(out, Measurement{"sampler/" + name,
			func(s *Suite) (work, error) { return s.sampler(sampler) }})
	}
	return out
}

// ruleSteps is 2, because what a sampler remembers or closes shows in the second step.
const ruleSteps = 2

// sampler measures the first two of 64 steps from LM12 with everything masked. Hidden states are
// given, so the time is that of the head at the rows that the sampler needs and of its own work.
func (s *Suite) sampler(sampler samplers.Sampler) (work, error) {
	m, err := s.load("lm12", backend.F32)
	if err != nil {
		return work{}, err
	}
	g, err := give(m, masked(m, 1))
	if err != nil {
		return work{}, err
	}
	r, rows := &rule{}, 0
	run := func() (err error) {
		of := generate.Request{Recipe: generate.Recipe{Sampler: sampler, Steps: 64}}
		rows, err = g.steps(generate.Options{Request: of}, s.pool.Threads(), r)
		return err
	}
	if err := run(); err != nil { // sets rows, too
		return work{}, err
	}
	return work{run: run, cost: cost{ops: headOps(m.Info.Sizes, rows), as: backend.F32, rule: r}}, nil
}

// rule is a sampler's own seconds in the latest call, and those of the passes that are left out.
type rule struct{ own, passes float64 }

// given is a network whose passes take no time, because their hidden states are given. It measures
// the time of the output head, and the sampler's part of it.
type given struct {
	model.Denoiser
	marginals model.Marginals
	length    int
	pass      float64 // seconds of a real pass, the fastest of a few
	rows      []int32
	head      time.Duration
	visits    atomic.Int64 // nanoseconds, of all threads, within the functions that Visit calls
}

// give computes the pass that stands for all others.
func give(m model.Denoiser, b *model.Batch) (*given, error) {
	g := &given{Denoiser: m, length: b.Length, pass: math.Inf(1)}
	for range 3 {
		began := time.Now()
		var err error
		if g.marginals, err = m.Forward(context.Background(), b); err != nil {
			return nil, err
		}
		g.pass = min(g.pass, time.Since(began).Seconds())
	}
	return g, nil
}

// steps makes the first ruleSteps steps, fills in r and returns the number of rows of the head.
func (g *given) steps(o generate.Options, threads int, r *rule) (rows int, err error) {
	r.own = 0
	for step, err := range generate.Run(context.Background(), g, o) {
		if err != nil {
			return 0, err
		}
		r.own += step.Seconds - g.head.Seconds() + time.Duration(g.visits.Load()).
			Seconds()/float64(threads)
		g.head = 0
		g.visits.Store(0)
		done := step.Sequences[0].Work
		rows, r.passes = done.Head, float64(done.Full)*g.pass
		if step.N == ruleSteps {
			break
		}
	}
	return rows, nil
}

func (g *given) Forward(context.Context, *model.Batch) (model.Marginals, error) { return g, nil }

// first maps rows to those of the only sequence.
func (g *given) first(rows []int32) []int32 {
	g.rows = g.rows[:0]
	for _, r := range rows {
		g.rows = append(g.rows, r%int32(g.length))
	}
	return g.rows
}

func (g *given) Stats(rows []int32, s *model.Stats) error {
	defer g.since(time.Now())
	return g.marginals.Stats(g.first(rows), s)
}

func (g *given) Sample(rows []int32, d *model.Draw) error {
	defer g.since(time.Now())
	return g.marginals.Sample(g.first(rows), d)
}

func (g *given) Visit(rows []int32, visit func(i int, logits []float32)) error {
	defer g.since(time.Now())
	return g.marginals.Visit(g.first(rows), func(i int, logits []float32) {
		began := time.Now()
		visit(i, logits)
		g.visits.Add(int64(time.Since(began)))
	})
}

func (g *given) since(began time.Time) { g.head += time.Since(began) }
