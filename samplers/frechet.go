package samplers

// Frechet opens the most positions, by falling confidence c_1 >= c_2 >= ..., for which Frechet's
// bounds certify that their most probable tokens together are the joint distribution's mode: L_n -
// U_n > Margin, where L_n = c_1 + .. + c_n - (n-1) bounds the probability of these tokens from
// below and U_n = 1 - c_n that of any others from above (Fast-dLLM++, arXiv 2606.02955, algorithm 1
// and equation 5). At least one opens. The difference falls with n, so the first failure ends the
// search. Where all confidences are equal it is Factor with f = 1 - Margin.
type Frechet struct {
	// Margin below 0 opens more than is certified.
	Margin float64 `param:"margin -1e3..1 =0.02" help:"how much more probable than any others their tokens must be"`
	ownPace
}

// Needs the largest probability.
func (Frechet) Needs(int, int) Need { return Need{Top: true} }

// Choose opens the certified positions, the most confident first.
func (f Frechet) Choose(v *View) (Opening, error) {
	margin := WithDefaults(f).Margin
	ranked := Confidence{}.Rank(v, len(v.Masked))

	// isCertified adds the next position of the ranking to L_n, and reports whether the bounds still
	// certify all positions up to it.
	lowerBound := 1.0
	isCertified := func(i int) bool {
		lowerBound += v.P1[i] - 1
		return lowerBound-(1-v.P1[i]) > margin
	}
	if len(ranked) > 0 {
		isCertified(v.Index(ranked[0])) // the first opens anyway, but counts in L_n
	}
	return Opening{Positions: v.firstWhile(ranked, 1, isCertified)}, nil
}
