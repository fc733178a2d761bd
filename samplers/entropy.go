package samplers

// Entropy opens the positions with the lowest entropy first (Xiang et al. 2022, "MIMT: masked image
// modeling transformer for video compression"; Dream's "entropy"). Two public programs have the
// opposite sign and open the least certain positions first.
type Entropy struct {
	Temperature float64 // of the order; 0 means none
}

var entropyRule = Rule[Entropy]{
	Name:  "entropy",
	Line:  "the lowest entropy first",
	Paper: "Xiang et al. 2022, MIMT",
	Params: []Param[Entropy]{Number(func(e *Entropy) *float64 { return &e.Temperature },
		orderTemperature)},
}

// Needs the entropy.
func (Entropy) Needs(int, int) Need { return Need{Entropy: true} }

// Rank returns the k positions of lowest entropy.
func (e Entropy) Rank(v *View, k int) []int {
	return v.tempered(k, e.Temperature, func(i int) float64 { return -v.Entropy[i] })
}
