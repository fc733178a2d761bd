package samplers

// Entropy opens the positions with the lowest entropy first (Xiang et al. 2022, "MIMT: masked image
// modeling transformer for video compression"; Dream's "entropy"). Two public programs have the
// opposite sign and open the least certain positions first.
type Entropy struct {
	Temperature float64 `param:"temperature 1e-6..1e6 0=none" help:"of the draw of positions; 0 takes the best"`
}

// Needs the entropy.
func (Entropy) Needs(int, int) Need { return Need{Entropy: true} }

// Rank returns the k positions of lowest entropy.
func (e Entropy) Rank(v *View, k int) []int {
	return v.topTempered(k, e.Temperature, func(i int) float64 { return -v.Entropy[i] })
}
