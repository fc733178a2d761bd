package samplers

import (
	"math"

	"unmask/internal/philox"
)

// FirstHitting simulates the times at which positions open (Zheng et al. 2024, "Masked
// diffusion models are secretly time-agnostic masked models and exploit inaccurate
// categorical sampling"): with m masked, t <- t*u^(1/m), and one position, uniformly
// chosen, opens. One by one, the exact process, without a wasted call.
type FirstHitting struct{}

// Plan takes one step a position.
func (FirstHitting) Plan(_, free int) (int, error) { return free, nil }

// Time is that at which the step's position opens.
func (FirstHitting) Time(v *View) float64 {
	log := 0.0
	for step := 1; step <= v.Step; step++ {
		log += math.Log(v.Rand.At(step).Uniform(0, philox.Setup)) / float64(max(v.Free-step+1, 1))
	}
	return math.Exp(log)
}

// Needs nothing: positions come first.
func (FirstHitting) Needs(int, int) Need { return Need{} }

// Choose opens one.
func (FirstHitting) Choose(v *View) (Opening, error) {
	return Opening{Positions: v.Top(1, v.Uniform)}, nil
}
