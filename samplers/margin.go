package samplers

// Margin opens the positions with the largest difference between the two largest probabilities
// first (Kim et al. 2025, "Train for the worst, plan for the best", top-k probability margin).
type Margin struct {
	Temperature float64 `param:"temperature 1e-6..1e6 0=none" help:"of the draw of positions; 0 takes the best"`
}

// Needs the two largest probabilities.
func (Margin) Needs(int, int) Need { return Need{Top: true} }

// Rank returns the k positions with the widest margins.
func (m Margin) Rank(v *View, k int) []int {
	return v.topTempered(k, m.Temperature, func(i int) float64 { return v.P1[i] - v.P2[i] })
}
