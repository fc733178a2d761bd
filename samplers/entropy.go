package samplers

// Entropy opens first where the entropy is lowest (Xiang et al. 2022, "MIMT: masked image
// modeling transformer for video compression"; Dream's "entropy"). Two public programs have the
// sign wrong and open the least certain first.
type Entropy struct {
	Temperature float64 // of the order; 0: none
}

// Needs the entropy.
func (Entropy) Needs(int, int) Need { return Need{Entropy: true} }

// Rank returns the lowest entropies.
func (e Entropy) Rank(v *View, k int) []int {
	return v.tempered(k, e.Temperature, func(i int) float64 { return -v.Entropy[i] })
}

// Check wants a temperature of at least 0.
func (e Entropy) Check() error { return positive("temperature", e.Temperature) }
