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
