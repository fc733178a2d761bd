package samplers_test

import (
	"fmt"
	"math"

	"unmask/samplers"
)

// Middle is a user's own order: positions near the middle open first.
type Middle struct {
	Spread float64 `param:"spread 0.001..1000 =1" help:"of the noise, positions"`
}

func (Middle) Needs(step, steps int) samplers.Need { return samplers.Need{} }

func (m Middle) Rank(v *samplers.View, k int) []int {
	spread := samplers.WithDefaults(m).Spread
	return v.Top(k, func(i int) float64 {
		away := math.Abs(float64(v.Masked[i] - len(v.Tokens)/2))
		return -away + spread*v.Gumbel(i)
	})
}

func init() {
	samplers.Register(samplers.Rule{Prototype: Middle{}, Name: "middle", Line: "the middle first",
		Paper: "an example"})
}

// A registered rule combines with all others, and its parameters are checked.
func ExampleRegister() {
	s, err := samplers.Parse("semi-ar(hybrid(middle(spread=2), u-moment), block=16)")
	fmt.Println(samplers.Text(s), err)
	_, err = samplers.Parse("middle(spread=0)")
	fmt.Println(err)
	// Output:
	// semi-ar(hybrid(middle(spread=2),u-moment),block=16) <nil>
	// samplers: "middle(spread=0)": middle: spread is 0, want 0.001 to 1000
}

// Equal samplers have the same text.
func ExampleParse() {
	for _, text := range []string{"hybrid()", "hybrid(alpha=6)", "hybrid(alpha=3)",
		"moment(alpha=6.0)"} {
		s, err := samplers.Parse(text)
		if err != nil {
			panic(err)
		}
		fmt.Println(samplers.Text(s))
	}
	// Output:
	// hybrid
	// hybrid
	// hybrid(halton,u-moment(alpha=3))
	// moment
}

// A sampler on marginals of a program of its own: it is asked for one step.
func ExampleSampler() {
	marginals := [][]float64{ // of the masked positions 1, 2 and 4
		{0.9, 0.1}, {0.5, 0.5}, {0.2, 0.8}}
	v := samplers.View{Tokens: []int32{0, 2, 2, 1, 2}, Mask: 2, Outcomes: 2, Shape: []int{5},
		Step: 1, Steps: 3, Quota: 2, Masked: []int{1, 2, 4}, FreeCount: 3, BlockTo: 5}
	confidence, err := samplers.Parse("confidence")
	if err != nil {
		panic(err)
	}
	if confidence.Needs(1, 3).Top { // the largest probabilities of each position
		for _, p := range marginals {
			v.P1 = append(v.P1, max(p[0], p[1]))
			v.P2 = append(v.P2, min(p[0], p[1]))
		}
	}
	opening, err := confidence.Choose(&v)
	fmt.Println(opening.Positions, err)
	// Output: [1 4] <nil>
}
