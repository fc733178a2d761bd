package samplers

// Random orders uniformly at random (Hayakawa et al. 2025, section 5: "Random", and "Fixed" in
// the appendix on numerical precision).
type Random struct{}

// Needs nothing: positions come first.
func (Random) Needs(int, int) Need { return Need{} }

// Rank returns k positions, every arrangement equally likely.
func (Random) Rank(v *View, k int) []int { return v.Top(k, v.Uniform) }
