package generate_test

import (
	"context"
	"fmt"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// Surprise opens the positions whose entropy is nearest to a given one first. An order needs no
// more than this.
type Surprise struct{ Nats float64 }

func (Surprise) Needs(step, steps int) samplers.Need { return samplers.Need{Entropy: true} }

func (s Surprise) Rank(v *samplers.View, k int) []int {
	return v.Top(k, func(i int) float64 {
		d := v.Entropy[i] - s.Nats
		return -d*d + 0.1*v.Gumbel(i)
	})
}

// A user's own order becomes a sampler with partial caching like any other.
func Example() {
	m, err := exact.Parse("markov:length=12,tokens=4,stay=0.8")
	if err != nil {
		panic(err)
	}
	o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 3, Cache: 1,
		Sampler: samplers.ChooseThenSample{Order: Surprise{Nats: 0.5}}}}}
	for step, err := range generate.Run(context.Background(), exact.NewDenoiser(m), o) {
		if err != nil {
			panic(err)
		}
		s := step.Sequences[0]
		fmt.Println(step.N, "of", step.Steps, "opened", len(s.Opened), "rows recomputed",
			s.Work.Partial)
	}
	// Output:
	// 1 of 3 opened 4 rows recomputed 4
	// 2 of 3 opened 4 rows recomputed 8
	// 3 of 3 opened 4 rows recomputed 12
}

// A recipe has one text, however it was spelled.
func ExampleParseRecipe() {
	r, err := generate.ParseRecipe("eb(margin, budget=0.1) temperature=1 steps=8 top-p=0.9")
	if err != nil {
		panic(err)
	}
	fmt.Println(r)
	fmt.Println(r.WithDefaults(model.Spec{Shape: []int{16, 16}}))
	_, err = generate.ParseRecipe("hybrid steps=0")
	fmt.Println(err)
	// Output:
	// sampler=eb(margin) steps=8 top-p=0.9
	// sampler=eb(margin) schedule=cosine steps=8 top-p=0.9
	// steps is 0, want 1 to 1048576
}
