package samplers

import "math"

// FirstHitting simulates the times at which positions open (Zheng et al. 2024, "Masked diffusion
// models are secretly time-agnostic masked models and exploit inaccurate categorical sampling"):
// with m positions masked, t <- t*u^(1/m), and one of them, chosen uniformly, opens. This is the
// exact process, and every pass opens a position.
type FirstHitting struct{ ownPace }

// Time returns the time at which the step's position opens.
func (FirstHitting) Time(v *View) float64 {
	log := 0.0
	for step := 1; step <= v.Step; step++ {
		log += math.Log(v.Rand.At(step).Uniform(0, ForSetup)) / float64(max(v.FreeCount-step+1, 1))
	}
	return math.Exp(log)
}

// Needs nothing: positions are chosen first.
func (FirstHitting) Needs(int, int) Need { return Need{} }

// Choose opens one position.
func (FirstHitting) Choose(v *View) (Opening, error) {
	return Opening{Positions: v.Top(1, v.Uniform)}, nil
}
