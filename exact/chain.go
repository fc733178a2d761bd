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
	name          string
	shape         []int
	tokens        int
	sites, cells  int
	states        int
	first         []float64 // [states] weight of the first state
	step          []float64 // [states, states] weight of the next state, given this
	emit          func(site, cell int) []float64
	transparent   bool        // the tokens of a site tell its state
	powers        [][]float64 // [distance, states, states] of step, of Letters; nil for others
	alphabet      string      // a letter for each token; "" for those of Symbols
	position      func(site, cell int) int
	suffixWeights []float64 // [sites, states] sum of the weights of all that follows
	logWhole      float64   // log of the sum over everything
}

// finish computes what does not depend on any sequence.
func (m *Model) finish() *Model {
	mask := slices.Repeat([]int32{int32(m.tokens)}, m.Length())
	w := m.newWork()
	m.logWhole = 0
	m.logWhole = m.pass(mask, w)
	m.suffixWeights = w.beta
	return m
}

// Shape of the sequences: [length], or [height, width].
func (m *Model) Shape() []int { return m.shape }

// Tokens returns the number of outcomes at each position.
func (m *Model) Tokens() int { return m.tokens }

// Length returns the number of positions.
func (m *Model) Length() int { return m.sites * m.cells }

// String returns the text that Parse builds this model from.
func (m *Model) String() string { return m.name }

// work is the memory of one pass of messages.
type work struct {
	site  []float64 // [sites, states] product of the likelihoods of the open cells
	alpha []float64 // [sites, states] message from the left, without this site's cells
	beta  []float64 // [sites, states] message from the right, without this site's cells

	possible []int // states of a site that its open cells allow
}

func (m *Model) newWork() *work {
	n := m.sites * m.states
	return &work{make([]float64, n), make([]float64, n), make([]float64, n), make([]int, m.states)}
}

// pass sends messages in both directions and returns the log-probability of the open cells, which
// are tokens below Tokens. Messages are scaled to sum to 1.
func (m *Model) pass(x []int32, w *work) (logP float64) {
	k := m.states
	for site := range m.sites {
		here := w.site[site*k : (site+1)*k]
		for s := range here {
			here[s] = 1
		}
		for cell := range m.cells {
			if t := int(x[m.position(site, cell)]); t < m.tokens {
				e := m.emit(site, cell)
				for s := range here {
					here[s] *= e[s*m.tokens+t]
				}
			}
		}
	}
	copy(w.alpha[:k], m.first)
	for site := 1; site < m.sites; site++ {
		alpha, before, here := w.alpha[site*k:(site+1)*k], w.alpha[(site-1)*k:site*k],
			w.site[(site-1)*k:site*k]
		clear(alpha)
		for s, a := range before {
			if a *= here[s]; a != 0 {
				for next, v := range m.step[s*k : (s+1)*k] {
					alpha[next] += a * v
				}
			}
		}
		logP += math.Log(scale(alpha))
	}
	last := w.beta[(m.sites-1)*k:]
	for s := range last {
		last[s] = 1
	}
	for site := m.sites - 2; site >= 0; site-- {
		beta, after, there := w.beta[site*k:(site+1)*k], w.beta[(site+1)*k:(site+2)*k],
			w.site[(site+1)*k:(site+2)*k]
		possible := w.possible[:0]
		for next, v := range there {
			if v != 0 {
				possible = append(possible, next)
			}
		}
		for s := range beta {
			sum, step := 0.0, m.step[s*k:(s+1)*k]
			for _, next := range possible {
				sum += step[next] * there[next] * after[next]
			}
			beta[s] = sum
		}
		scale(beta)
	}
	end := 0.0
	for s, a := range w.alpha[(m.sites-1)*k:] {
		end += a * w.site[(m.sites-1)*k+s]
	}
	return logP + math.Log(end) - m.logWhole
}

// scale divides by the sum, which it returns.
func scale(x []float64) float64 {
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
	return m.conditionals(p, x, m.newWork())
}

func (m *Model) conditionals(p []float64, x []int32, w *work) (logP float64) {
	if m.powers != nil {
		return m.between(p, x)
	}
	logP = m.pass(x, w)
	k := m.states
	for site := range m.sites {
		alpha, beta := w.alpha[site*k:(site+1)*k], w.beta[site*k:(site+1)*k]
		for cell := range m.cells {
			at := m.position(site, cell)
			out := p[at*m.tokens : (at+1)*m.tokens]
			clear(out)
			own := m.emit(site, cell)
			for s := range k {
				weight := alpha[s] * beta[s]
				for other := range m.cells {
					t := int(x[m.position(site, other)])
					if other != cell && t < m.tokens {
						weight *= m.emit(site, other)[s*m.tokens+t]
					}
				}
				if weight != 0 {
					for t := range out {
						out[t] += weight * own[s*m.tokens+t]
					}
				}
			}
			scale(out)
		}
	}
	return logP
}

// LogProb returns the log-probability of a sequence, summed over masked positions.
func (m *Model) LogProb(x []int32) float64 { return m.pass(x, m.newWork()) }

// Sample draws a sequence from the model itself; index is its number under the seed.
func (m *Model) Sample(seed uint64, index uint32) []int32 {
	r := philox.Stream{Seed: seed, Sequence: index}
	x := make([]int32, m.Length())
	weights := make([]float64, m.states)
	k, state := m.states, 0
	for site := range m.sites {
		prior := m.first
		if site > 0 {
			prior = m.step[state*k : (state+1)*k]
		}
		for s := range weights {
			weights[s] = prior[s] * m.suffixWeights[site*k+s]
		}
		state = pick(weights, r.Uniform(site, philox.Setup))
		for cell := range m.cells {
			at := m.position(site, cell)
			x[at] = int32(pick(m.emit(site, cell)[state*m.tokens:(state+1)*m.tokens],
				r.Uniform(at, philox.Token)))
		}
	}
	return x
}

// pick draws an index by weights.
func pick(weights []float64, u float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	chosen, target := 0, u*sum
	for i, w := range weights {
		if w > 0 {
			chosen = i
			if target -= w; target < 0 {
				break
			}
		}
	}
	return chosen
}

// entropySamples is the number of sequences that estimate an entropy without a closed form.
const entropySamples = 1 << 12

// Entropy returns the entropy of whole sequences in nats, and its standard error: 0 if it is exact,
// as for all but hidden Markov models.
func (m *Model) Entropy() (nats, deviation float64) {
	if m.transparent {
		return m.chainEntropy(), 0
	}
	if m.states == 1 {
		for site := range m.sites {
			nats += entropy(m.emit(site, 0))
		}
		return nats, 0
	}
	var sum, squares float64
	for i := range uint32(entropySamples) {
		h := -m.LogProb(m.Sample(0, i))
		sum, squares = sum+h, squares+h*h
	}
	mean := sum / entropySamples
	return mean, math.Sqrt(max(0, squares/entropySamples-mean*mean) / entropySamples)
}

// chainEntropy returns the sum of H(state | previous state).
func (m *Model) chainEntropy() (nats float64) {
	k := m.states
	at, next, weights := make([]float64, k), make([]float64, k), make([]float64, k)
	for s := range at {
		at[s] = m.first[s] * m.suffixWeights[s]
	}
	scale(at)
	nats = entropy(at)
	for site := 1; site < m.sites; site++ {
		clear(next)
		for s, p := range at {
			for t := range weights {
				weights[t] = m.step[s*k+t] * m.suffixWeights[site*k+t]
			}
			scale(weights)
			nats += p * entropy(weights)
			for t, w := range weights {
				next[t] += p * w
			}
		}
		at, next = next, at
	}
	return nats
}

func entropy(p []float64) (nats float64) {
	for _, v := range p {
		if v > 0 {
			nats -= v * math.Log(v)
		}
	}
	return nats
}
