package samplers

// EntropyThreshold opens all positions with an entropy of at most Entropy, and always the one with
// the least (d3LLM, arXiv 2601.07568, get_transfer_index_entropy of the authors' program; dParallel
// has the same rule). Unlike EB it looks at each position alone and does not sum entropies.
type EntropyThreshold struct {
	Entropy float64 `param:"entropy 1e-9..1e3 =0.5" help:"entropy that is low enough, nats"`
	ownPace
}

// Needs entropies.
func (EntropyThreshold) Needs(int, int) Need { return Need{Entropy: true} }

// Choose opens the positions of low entropy, the lowest first.
func (e EntropyThreshold) Choose(v *View) (Opening, error) {
	bound := WithDefaults(e).Entropy
	ranked := Entropy{}.Rank(v, len(v.Masked))
	low := v.firstWhile(ranked, 1, func(i int) bool { return v.Entropy[i] <= bound })
	return Opening{Positions: low}, nil
}
