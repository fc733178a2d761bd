package exact

// Pairs returns how probable each pair of neighbouring tokens is at a place drawn at random,
// [tokens, tokens]; nil for a grid, and for a model of one position.
func (m *Model) Pairs() []float64 {
	if m.cells > 1 || m.sites < 2 {
		return nil
	}
	if m.powers != nil { // tokens are states, and all places are alike
		p := make([]float64, 0, len(m.step))
		for s, first := range m.first {
			for _, next := range m.step[s*m.states : (s+1)*m.states] {
				p = append(p, first*next)
			}
		}
		return p
	}

	pairs := make([]float64, m.tokens*m.tokens)
	prefix := append([]float64(nil), m.first...) // the weights of the states at a site, scaled
	joint := make([]float64, m.states*m.states)  // those of the states at a site and the next one
	for site := range m.sites - 1 {
		suffix := m.suffixWeights[(site+1)*m.states : (site+2)*m.states]
		next := make([]float64, m.states)
		for s, weight := range prefix {
			for t, step := range m.step[s*m.states : (s+1)*m.states] {
				next[t] += weight * step
				joint[s*m.states+t] = weight * step * suffix[t]
			}
		}
		normalize(joint)
		if m.tokensTellState {
			addTo(pairs, joint)
		} else {
			m.addPairs(pairs, joint, site)
		}
		normalize(next)
		prefix = next
	}
	normalize(pairs)
	return pairs
}

// addPairs adds the probabilities of the tokens at a site and the next one, given those of their
// states.
func (m *Model) addPairs(pairs, joint []float64, site int) {
	here := m.emit(site, 0)
	there := m.emit(site+1, 0)
	second := make([]float64, m.tokens) // of the tokens that follow a state
	for s := range m.states {
		clear(second)
		for t, p := range joint[s*m.states : (s+1)*m.states] {
			for b, emission := range there[t*m.tokens : (t+1)*m.tokens] {
				second[b] += p * emission
			}
		}
		for a, emission := range here[s*m.tokens : (s+1)*m.tokens] {
			for b, p := range second {
				pairs[a*m.tokens+b] += emission * p
			}
		}
	}
}

// addTo adds values to sums.
func addTo(sums, values []float64) {
	for i, v := range values {
		sums[i] += v
	}
}
