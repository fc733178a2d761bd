package samplers

import (
	"cmp"

	"unmask/param"
)

// EntropyThreshold opens all positions with an entropy of at most Entropy, and always the one with
// the least (d3LLM, arXiv 2601.07568, get_transfer_index_entropy of the authors' program; dParallel
// has the same rule). Unlike EB it adds nothing up.
type EntropyThreshold struct {
	Entropy float64 // nats; 0 means 0.5
	ownPace
}

var entropyThresholdRule = Rule[EntropyThreshold]{
	Name:  "entropy-threshold",
	Line:  "all whose entropy is low enough",
	Paper: "d3LLM 2026, arXiv 2601.07568",
	Params: []Param[EntropyThreshold]{
		Number(func(e *EntropyThreshold) *float64 { return &e.Entropy }, entropyEnough)},
}

// entropyEnough is the bound of rules that open what has a low entropy. d3LLM's scripts have 0.4 to
// 0.5.
var entropyEnough = param.Param{Name: "entropy", Min: 1e-9, Max: 1e3, Default: "0.5",
	Help: "entropy that is low enough, nats"}

// Needs entropies.
func (EntropyThreshold) Needs(int, int) Need { return Need{Entropy: true} }

// Choose opens the positions of low entropy, the lowest first.
func (e EntropyThreshold) Choose(v *View) (Opening, error) {
	bound := cmp.Or(e.Entropy, 0.5)
	ranked := Entropy{}.Rank(v, len(v.Masked))
	low := v.first(ranked, 1, func(i int) bool { return v.Entropy[i] <= bound })
	return Opening{Positions: low}, nil
}
