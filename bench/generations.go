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

// generations returns whole sequences of LM12 in 32 steps.
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
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: sampler,
		Steps: 32}, Length: generationLength}}
	if cached {
		o.Cache = 1
	}
	return whole(m.Info.Sizes, generationLength, func() iter.Seq2[*generate.Step, error] {
		return generate.Run(context.Background(), m.Denoiser, o)
	})
}

// demos generate one sequence of the embedded models with the command's defaults.
func demos() []Measurement {
	return []Measurement{
		{"generate/text", func(s *Suite) (work, error) { return s.generate(demo.Text()) }},
		{"generate/image", func(s *Suite) (work, error) { return s.generate(demo.Image()) }},
	}
}

func (s *Suite) generate(files fs.FS) (work, error) {
	s.drop()
	m, err := unmask.LoadFS(files, "demo", unmask.Options{Backend: s.Device})
	if err != nil {
		return work{}, err
	}
	rows := m.Spec().Length()
	if m.Info.Sizes["grid"] > 0 {
		rows++
	}
	return whole(m.Info.Sizes, rows, func() iter.Seq2[*generate.Step, error] {
		return unmask.Generate(context.Background(), m, unmask.Request{}, 1)
	})
}

// whole returns runs of one sequence with so many rows; all take the same passes.
func whole(sizes map[string]int, rows int,
	generated func() iter.Seq2[*generate.Step, error]) (work, error) {
	var done generate.Work
	run := func() error {
		for step, err := range generated() {
			if err != nil {
				return err
			}
			done = step.Sequences[0].Work
		}
		return nil
	}
	err := run()
	ops := passOps(sizes, done.Full*rows+done.Partial) + headOps(sizes, done.Head)
	return work{run: run, cost: cost{ops: ops}}, err
}
