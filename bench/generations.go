package bench

import (
	"context"
	"iter"
	"strings"

	"unmask/backend"
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
