package main

import "unmask/samplers"

// Alternate opens every Stride-th position first, then the others, each in random order.
type Alternate struct {
	Stride int `param:"stride 1..64 =2" help:"distance of the first positions"`
}

func init() {
	samplers.Register(samplers.Rule{
		Prototype: Alternate{},
		Name:      "alternate",
		Line:      "every other position first",
		Paper:     "an example",
	})
}

// Needs nothing of the marginals.
func (Alternate) Needs(int, int) samplers.Need { return samplers.Need{} }

// Rank returns k positions.
func (a Alternate) Rank(v *samplers.View, k int) []int {
	stride := max(a.Stride, 1)
	if a.Stride == 0 {
		stride = 2
	}
	return v.Top(k, func(i int) float64 {
		if v.Masked[i]%stride == 0 {
			return 1 + v.Uniform(i)
		}
		return v.Uniform(i)
	})
}

// String returns the text that samplers.Parse reads.
func (a Alternate) String() string { return samplers.Text(a) }
