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

// samplerMeasurements returns the measurements of all samplers on LM12.
func samplerMeasurements() []Measurement {
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
			func(s *Suite) (work, error) { return s.measureSampler(sampler) }})
	}
	return out
}

// ruleSteps is 2, because what a sampler remembers or closes shows in the second step.
const ruleSteps = 2

// measureSampler measures the first two of 64 steps from LM12 with everything masked. Hidden states
// are given, so the time is that of the head at the rows that the sampler needs and of its own
// work.
func (s *Suite) measureSampler(sampler samplers.Sampler) (work, error) {
	m, err := s.loadNetwork("lm12", backend.F32)
	if err != nil {
		return work{}, err
	}
	g, err := newFixedPass(m, maskedBatch(m, 1))
	if err != nil {
		return work{}, err
	}
	r := &samplerTimes{}
	rows := 0
	run := func() (err error) {
		request := generate.Request{Recipe: generate.Recipe{Sampler: sampler, Steps: 64}}
		rows, err = g.runSteps(generate.Options{Request: request}, s.pool.Threads(), r)
		return err
	}
	if err := run(); err != nil { // sets rows, too
		return work{}, err
	}
	return work{run: run, cost: cost{
		ops:       headOps(m.Info.Sizes, rows),
		precision: backend.F32,
		sampler:   r,
	}}, nil
}

// samplerTimes is a sampler's own seconds in the latest call, and those of the passes that are left
// out.
type samplerTimes struct{ own, passes float64 }

// fixedPass is a network whose passes take no time, because their hidden states are given. It
// measures the time of the output head, and the sampler's part of it.
type fixedPass struct {
	model.Denoiser
	marginals   model.Marginals
	length      int
	passSeconds float64 // seconds of a real pass, the fastest of a few
	mapped      []int32
	headTime    time.Duration
	visitNanos  atomic.Int64 // nanoseconds, of all threads, within the functions that Visit calls
}

// newFixedPass computes the pass that stands for all others.
func newFixedPass(m model.Denoiser, b *model.Batch) (*fixedPass, error) {
	g := &fixedPass{Denoiser: m, length: b.Length, passSeconds: math.Inf(1)}
	for range 3 {
		start := time.Now()
		marginals, err := m.Forward(context.Background(), b)
		if err != nil {
			return nil, err
		}
		g.marginals = marginals
		g.passSeconds = min(g.passSeconds, time.Since(start).Seconds())
	}
	return g, nil
}

// runSteps makes the first ruleSteps steps, fills in r and returns the number of rows of the head.
func (g *fixedPass) runSteps(o generate.Options, threads int, r *samplerTimes) (rows int,
	err error) {
	r.own = 0
	for step, err := range generate.Run(context.Background(), g, o) {
		if err != nil {
			return 0, err
		}
		r.own += step.Seconds - g.headTime.Seconds() + time.Duration(g.visitNanos.Load()).
			Seconds()/float64(threads)
		g.headTime = 0
		g.visitNanos.Store(0)
		counted := step.Sequences[0].Work
		rows = counted.Head
		r.passes = float64(counted.Full) * g.passSeconds
		if step.N == ruleSteps {
			break
		}
	}
	return rows, nil
}

// Forward returns the marginals of the fixed pass at once.
func (g *fixedPass) Forward(context.Context, *model.Batch) (model.Marginals, error) {
	return g, nil
}

// sequenceRows maps rows to those of the only sequence.
func (g *fixedPass) sequenceRows(rows []int32) []int32 {
	g.mapped = g.mapped[:0]
	for _, r := range rows {
		g.mapped = append(g.mapped, r%int32(g.length))
	}
	return g.mapped
}

func (g *fixedPass) Stats(rows []int32, s *model.Stats) error {
	defer g.addHeadTime(time.Now())
	return g.marginals.Stats(g.sequenceRows(rows), s)
}

func (g *fixedPass) Sample(rows []int32, d *model.Draw) error {
	defer g.addHeadTime(time.Now())
	return g.marginals.Sample(g.sequenceRows(rows), d)
}

// Visit implements model.Marginals. The time of the visitor is the sampler's, so that it is not
// counted as the head's.
func (g *fixedPass) Visit(rows []int32, visit func(i int, logits []float32)) error {
	defer g.addHeadTime(time.Now())
	return g.marginals.Visit(g.sequenceRows(rows), func(i int, logits []float32) {
		began := time.Now()
		visit(i, logits)
		g.visitNanos.Add(int64(time.Since(began)))
	})
}

func (g *fixedPass) addHeadTime(began time.Time) { g.headTime += time.Since(began) }
