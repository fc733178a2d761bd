package bench

import (
	"context"
	"strings"

	"unmask/backend"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// generations returns whole sequences of LM12 in 32 steps. Each alternates with a twin that also
// computes what nobody reads: all rows of the last block, and everything that a sampler could need
// in any step.
func generations() []Measurement {
	var out []Measurement
	// halton reads the rows that it opens, maskgit and moment all that are masked
	for _, name := range []string{"halton", "halton+cache", "hybrid", "hybrid+cache", "maskgit",
		"moment", "moment+cache"} {
		out = append(out, Measurement{"generate/lm12/" + name,
			func(s *Suite) (work, error) { return s.generation(name) }})
	}
	return out
}

// generationLength is the length of a sequence: enough rows for the processor, few enough to be
// fast.
const generationLength = 128

// generation prepares a sampler, with one intermediate stage if the name ends in "+cache".
func (s *Suite) generation(name string) (work, error) {
	name, cached := strings.CutSuffix(name, "+cache")
	sampler, err := samplers.Parse(name)
	if err != nil {
		return work{}, err
	}
	m, err := s.load("lm12", backend.F32)
	if err != nil {
		return work{}, err
	}
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 32},
		Length: generationLength}}
	if cached {
		o.Cache = 1
	}
	var c cost
	generation := func(d model.Denoiser, sampler samplers.Sampler) error {
		o.Sampler = sampler
		for step, err := range generate.Run(context.Background(), d, o) {
			if err != nil {
				return err
			}
			done := step.Sequences[0].Evaluated
			rows := done.Full*generationLength + done.Partial
			c = cost{ops: passOps(m.Info.Sizes, rows) + headOps(m.Info.Sizes, done.Head), as: backend.F32}
		}
		return nil
	}
	run := func() error { return generation(m.Denoiser, sampler) }
	err = run()
	return work{run: run, cost: c, twin: func() error {
		return generation(everyRow{m.Denoiser.(model.Refiner)}, wasteful{sampler})
	}}, err
}

// wasteful hides that a sampler is samplers.Frugal.
type wasteful struct{ samplers.Sampler }

// everyRow computes all rows of a pass to their end, also those that nobody reads.
type everyRow struct{ model.Refiner }

func (d everyRow) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	c := *b
	c.Read = nil
	return d.Refiner.Forward(ctx, &c)
}

func (d everyRow) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals,
	error) {
	c := *b
	c.Read = nil
	return d.Refiner.Refine(ctx, &c, rows)
}
