// Package exact holds models whose one-token marginals are exact. Every p_(i|U) is computed by
// message passing in float64, and so are log-probabilities, entropy and samples from the truth.
// They are Denoisers like any network, so that counting shows whether a sampler is right.
package exact

import (
	"math"
	"slices"

	"unmask/internal/philox"
)

// Model is a distribution over sequences, any of:
//
//   - a product (Product): independent positions;
//   - a Markov chain: each token depends on the one before;
//   - a hidden Markov model: tokens are noisy reports of a hidden chain;
//   - an Ising strip: spins on a grid, few rows high.
//
// All are one thing: a chain of hidden states, a state a site, and at each site one or more
// cells whose tokens depend on the state alone. A Model never changes.
type Model struct {
	// name is the text that Parse builds the model from.
	name string

	shape  []int
	tokens int

	// sites are the places of the chain, and cells the positions at each site. position returns the
	// position of a cell in the sequence.
	sites    int
	cells    int
	position func(site, cell int) int

	// states is the number of hidden states. first are the weights of the first one, [states], and
	// step those of the next one given this, [states, states]. They need not sum to 1.
	states int
	first  []float64
	step   []float64

	// emit returns the probabilities of a cell's tokens given the state, [states, tokens].
	emit func(site, cell int) []float64

	// tokensTellState says that the tokens of a site tell its state.
	tokensTellState bool

	// powers are those of step, [distance][states, states], of Letters; nil for others.
	powers [][]float64

	// alphabet has a letter for each token; "" for those of Symbols.
	alphabet string

	// suffixWeights are the sums of the weights of all that follows, [sites, states], scaled.
	suffixWeights []float64

	// logTotal is the log of the sum over everything, by which probabilities are normalised.
	logTotal float64
}

// finish computes what does not depend on any sequence: the sums over a sequence of masks.
func (m *Model) finish() *Model {
	masks := slices.Repeat([]int32{int32(m.tokens)}, m.Length())
	w := m.newWork()
	m.logTotal = 0
	m.logTotal = m.passMessages(masks, w)
	m.suffixWeights = w.beta
	return m
}

// Shape returns that of the sequences: [length], or [height, width].
func (m *Model) Shape() []int { return m.shape }

// Tokens returns the number of outcomes at each position.
func (m *Model) Tokens() int { return m.tokens }

// Length returns the number of positions.
func (m *Model) Length() int { return m.sites * m.cells }

// String returns the text that Parse builds this model from.
func (m *Model) String() string { return m.name }

// work is the memory of one pass of messages.
type work struct {
	// site is the product of the likelihoods of the open cells, [sites, states].
	site []float64

	// alpha and beta are the messages from the left and from the right, without this site's cells,
	// [sites, states].
	alpha []float64
	beta  []float64

	// possible are the states of a site that its open cells allow.
	possible []int
}

// newWork returns the memory of the two passes over a chain.
func (m *Model) newWork() *work {
	n := m.sites * m.states
	return &work{
		site:     make([]float64, n),
		alpha:    make([]float64, n),
		beta:     make([]float64, n),
		possible: make([]int, m.states),
	}
}

// passMessages sends messages in both directions and returns the log-probability of the open cells,
// which are tokens below Tokens. Messages are scaled to sum to 1, so that long sequences do not
// underflow.
func (m *Model) passMessages(x []int32, w *work) (logP float64) {
	m.setSites(x, w)
	logP = m.passRight(w)
	m.passLeft(w)

	k := m.states
	total := 0.0
	for s, a := range w.alpha[(m.sites-1)*k:] {
		total += a * w.site[(m.sites-1)*k+s]
	}
	return logP + math.Log(total) - m.logTotal
}

// setSites sets w.site.
func (m *Model) setSites(x []int32, w *work) {
	k := m.states
	for site := range m.sites {
		likelihood := w.site[site*k : (site+1)*k]
		for s := range likelihood {
			likelihood[s] = 1
		}
		for cell := range m.cells {
			token := int(x[m.position(site, cell)])
			if token >= m.tokens {
				continue // masked
			}
			emission := m.emit(site, cell)
			for s := range likelihood {
				likelihood[s] *= emission[s*m.tokens+token]
			}
		}
	}
}

// passRight sets w.alpha from left to right and returns the log of what scaling has taken out.
func (m *Model) passRight(w *work) (logScale float64) {
	k := m.states
	copy(w.alpha[:k], m.first)
	for site := 1; site < m.sites; site++ {
		alpha := w.alpha[site*k : (site+1)*k]
		previous := w.alpha[(site-1)*k : site*k]
		likelihood := w.site[(site-1)*k : site*k]
		clear(alpha)
		for s, a := range previous {
			a *= likelihood[s]
			if a == 0 {
				continue
			}
			for next, v := range m.step[s*k : (s+1)*k] {
				alpha[next] += a * v
			}
		}
		logScale += math.Log(normalize(alpha))
	}
	return logScale
}

// passLeft sets w.beta from right to left. Its inner loop skips states that the open cells exclude:
// where tokens tell the state, one is left of many.
func (m *Model) passLeft(w *work) {
	k := m.states
	last := w.beta[(m.sites-1)*k:]
	for s := range last {
		last[s] = 1
	}
	for site := m.sites - 2; site >= 0; site-- {
		beta := w.beta[site*k : (site+1)*k]
		after := w.beta[(site+1)*k : (site+2)*k]
		likelihood := w.site[(site+1)*k : (site+2)*k]
		possible := w.possible[:0]
		for next, v := range likelihood {
			if v != 0 {
				possible = append(possible, next)
			}
		}
		for s := range beta {
			sum := 0.0
			step := m.step[s*k : (s+1)*k]
			for _, next := range possible {
				sum += step[next] * likelihood[next] * after[next]
			}
			beta[s] = sum
		}
		normalize(beta)
	}
}

// normalize divides by the sum, which it returns; a sum of 0 stays.
func normalize(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	if sum > 0 {
		for i := range x {
			x[i] /= sum
		}
	}
	return sum
}

// Conditionals writes p(x_i | all open positions but i) to p [length, tokens], for open and masked
// positions alike; masked ones have the token Tokens(). It returns the log-probability of the open
// tokens: -Inf if they cannot occur together.
func (m *Model) Conditionals(p []float64, x []int32) (logP float64) {
	return m.conditionals(p, x, m.newWork(), nil)
}

// conditionals is Conditionals with the caller's memory, of the positions that are asked for: nil
// means all. p is left as it is at the others.
func (m *Model) conditionals(p []float64, x []int32, w *work, isAsked []bool) (logP float64) {
	if m.powers != nil {
		return m.conditionalsByPowers(p, x, isAsked)
	}
	logP = m.passMessages(x, w)
	for site := range m.sites {
		for cell := range m.cells {
			position := m.position(site, cell)
			if isAsked != nil && !isAsked[position] {
				continue
			}
			out := p[position*m.tokens : (position+1)*m.tokens]
			m.setConditional(out, x, w, site, cell)
		}
	}
	return logP
}

// setConditional sets out [tokens] to the distribution of one cell given all open cells but itself.
func (m *Model) setConditional(out []float64, x []int32, w *work, site, cell int) {
	k := m.states
	alpha := w.alpha[site*k : (site+1)*k]
	beta := w.beta[site*k : (site+1)*k]
	emission := m.emit(site, cell)
	clear(out)
	for s := range k {
		weight := alpha[s] * beta[s]
		for other := range m.cells {
			token := int(x[m.position(site, other)])
			if other != cell && token < m.tokens {
				weight *= m.emit(site, other)[s*m.tokens+token]
			}
		}
		if weight == 0 {
			continue
		}
		for t := range out {
			out[t] += weight * emission[s*m.tokens+t]
		}
	}
	normalize(out)
}

// LogProb returns the log-probability of a sequence, summed over masked positions.
func (m *Model) LogProb(x []int32) float64 { return m.passMessages(x, m.newWork()) }

// Sample draws a sequence from the model itself; index is its number under the seed.
func (m *Model) Sample(seed uint64, index uint32) []int32 {
	r := philox.Stream{Seed: seed, Sequence: index}
	x := make([]int32, m.Length())
	weights := make([]float64, m.states)
	k := m.states
	state := 0
	for site := range m.sites {
		prior := m.first
		if site > 0 {
			prior = m.step[state*k : (state+1)*k]
		}
		for s := range weights {
			weights[s] = prior[s] * m.suffixWeights[site*k+s]
		}
		state = drawIndex(weights, r.Uniform(site, philox.Setup))
		for cell := range m.cells {
			position := m.position(site, cell)
			emission := m.emit(site, cell)[state*m.tokens : (state+1)*m.tokens]
			x[position] = int32(drawIndex(emission, r.Uniform(position, philox.Token)))
		}
	}
	return x
}

// drawIndex draws an index by weights, given a uniform number in (0, 1).
func drawIndex(weights []float64, uniform float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	index := 0
	target := uniform * sum
	for i, w := range weights {
		if w > 0 {
			index = i // by rounding the target may be left over; then it is the last one
			target -= w
			if target < 0 {
				break
			}
		}
	}
	return index
}

// entropySamples is the number of sequences that estimate an entropy without a closed form.
const entropySamples = 1 << 12

// Entropy returns the entropy of whole sequences in nats, and its standard error: 0 if it is exact,
// as for all but hidden Markov models.
func (m *Model) Entropy() (nats, deviation float64) {
	if m.tokensTellState {
		return m.chainEntropy(), 0
	}
	if m.states == 1 {
		for site := range m.sites {
			nats += entropyOf(m.emit(site, 0))
		}
		return nats, 0
	}
	sum := 0.0
	squares := 0.0
	for i := range uint32(entropySamples) {
		h := -m.LogProb(m.Sample(0, i))
		sum += h
		squares += h * h
	}
	mean := sum / entropySamples
	return mean, math.Sqrt(max(0, squares/entropySamples-mean*mean) / entropySamples)
}

// chainEntropy returns the sum of H(state | previous state).
func (m *Model) chainEntropy() (nats float64) {
	k := m.states
	current := make([]float64, k) // the distribution of the site's state
	next := make([]float64, k)
	weights := make([]float64, k)
	for s := range current {
		current[s] = m.first[s] * m.suffixWeights[s]
	}
	normalize(current)
	nats = entropyOf(current)

	for site := 1; site < m.sites; site++ {
		clear(next)
		for s, p := range current {
			for t := range weights {
				weights[t] = m.step[s*k+t] * m.suffixWeights[site*k+t]
			}
			normalize(weights)
			nats += p * entropyOf(weights)
			for t, w := range weights {
				next[t] += p * w
			}
		}
		current, next = next, current
	}
	return nats
}

// entropyOf returns the entropy of a distribution in nats.
func entropyOf(p []float64) (nats float64) {
	for _, v := range p {
		if v > 0 {
			nats -= v * math.Log(v)
		}
	}
	return nats
}
