package bench

import (
	"context"

	"unmask/backend"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// generations are whole sequences of LM12 in 32 steps. Each is measured twice: as it is, where the
// last block computes the rows that are read, and with all rows computed to their end.
func generations() []Measurement {
	var out []Measurement
	// reads the rows that it opens; reads all that are masked
	for _, name := range []string{"halton", "hybrid"} {
		sampler, err := samplers.Parse(name)
		if err != nil {
			panic("bench: " + err.Error())
		}
		for _, all := range []bool{false, true} {
			rows := map[bool]string{false: "read", true: "all"}[all]
			out = append(out, Measurement{"generate/lm12/" + name + "/" + rows,
				func(s *Suite) (work, error) { return s.generation(sampler, all) }})
		}
	}
	return out
}

// generationLength is the positions of a sequence: enough rows for the processor, few enough to
// wait for.
const generationLength = 128

func (s *Suite) generation(sampler samplers.Sampler, all bool) (work, error) {
	m, err := s.load("lm12", backend.F32)
	if err != nil {
		return work{}, err
	}
	var d model.Denoiser = m.Denoiser
	if all {
		d = wholePasses{d}
	}
	sizes := m.Info.Sizes
	var c cost
	run := func() error {
		for step, err := range generate.Run(context.Background(), d,
			generate.Options{Sampler: sampler, Steps: 32, Length: generationLength}) {
			if err != nil {
				return err
			}
			done := step.Sequences[0].Evaluated
			c = cost{ops: passOps(sizes, done.Full*generationLength) + headOps(sizes, done.Head),
				as: backend.F32}
		}
		return nil
	}
	err = run()
	return work{run, c}, err
}

// wholePasses computes all rows of a pass to their end.
type wholePasses struct{ model.Denoiser }

func (d wholePasses) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	c := *b
	c.Read = nil
	return d.Denoiser.Forward(ctx, &c)
}
