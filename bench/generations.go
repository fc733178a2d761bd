package bench

import (
	"context"
	"io/fs"
	"iter"
	"strings"

	"unmask"
	"unmask/backend"
	"unmask/demo"
	"unmask/generate"
	"unmask/samplers"
)

// generationMeasurements returns whole sequences of LM12 in 32 steps.
func generationMeasurements() []Measurement {
	var out []Measurement
	// halton reads the rows that it opens, maskgit and moment all that are masked
	for _, name := range []string{"halton", "halton+cache", "hybrid", "hybrid+cache", "maskgit",
		"moment", "moment+cache"} {
		out = append(out, Measurement{"generate/lm12/" + name,
			func(s *Suite) (work, error) { return s.measureGeneration(name) }})
	}
	return out
}

// generationLength is the length of a sequence: enough rows for the processor, few enough to be
// fast.
const generationLength = 128

// measureGeneration prepares a sampler, with one intermediate stage if the name ends in "+cache".
func (s *Suite) measureGeneration(name string) (work, error) {
	name, cached := strings.CutSuffix(name, "+cache")
	sampler, err := samplers.Parse(name)
	if err != nil {
		return work{}, err
	}
	m, err := s.loadNetwork("lm12", backend.F32)
	if err != nil {
		return work{}, err
	}
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: sampler,
		Steps: 32}, Length: generationLength}}
	if cached {
		o.Cache = 1
	}
	return wholeRuns(m.Info.Sizes, generationLength, func() iter.Seq2[*generate.Step, error] {
		return generate.Run(context.Background(), m.Denoiser, o)
	})
}

// demoMeasurements generate one sequence of the embedded models with the command's defaults.
func demoMeasurements() []Measurement {
	return []Measurement{
		{"generate/text", func(s *Suite) (work, error) { return s.measureDemo(demo.Text()) }},
		{"generate/image", func(s *Suite) (work, error) { return s.measureDemo(demo.Image()) }},
	}
}

// measureDemo prepares one sequence of an embedded model.
func (s *Suite) measureDemo(files fs.FS) (work, error) {
	s.dropNetwork()
	m, err := unmask.LoadFS(files, "demo", unmask.Options{Backend: s.Device})
	if err != nil {
		return work{}, err
	}
	rows := m.Spec().Length()
	if m.Info.Sizes["grid"] > 0 {
		rows++
	}
	return wholeRuns(m.Info.Sizes, rows, func() iter.Seq2[*generate.Step, error] {
		return unmask.Generate(context.Background(), m, unmask.Request{}, 1)
	})
}

// wholeRuns returns runs of one sequence with so many rows; all take the same passes.
func wholeRuns(sizes map[string]int, rows int,
	generated func() iter.Seq2[*generate.Step, error]) (work, error) {
	var counted generate.Work
	run := func() error {
		for step, err := range generated() {
			if err != nil {
				return err
			}
			counted = step.Sequences[0].Work
		}
		return nil
	}
	err := run()
	ops := passOps(sizes, counted.Full*rows+counted.Partial) + headOps(sizes, counted.Head)
	return work{run: run, cost: cost{ops: ops}}, err
}
