package exact

import (
	"fmt"
	"math"

	"unmask/internal/philox"
)

// Limits of what Parse and the constructors accept.
const (
	MaxLength = 1024
	MaxTokens = 256
	maxHeight = 8 // of a strip, whose columns have 2^height states
)

// Product returns a model of independent positions, each with weights drawn from the seed. sharp
// above 1 makes the weights more unequal.
func Product(length, tokens int, sharp float64, seed uint64) *Model {
	tables := make([][]float64, length)
	for i := range tables {
		tables[i] = drawWeights(tokens, sharp, seed, i)
	}
	m := setLine(&Model{
		name: fmt.Sprintf("product:length=%d,tokens=%d,sharp=%v,seed=%d", length, tokens, sharp,
			seed),
		tokens: tokens,
		states: 1,
		first:  []float64{1},
		step:   []float64{1},
		emit:   func(site, _ int) []float64 { return tables[site] },
	}, length)
	return m.finish()
}

// Markov returns a chain: the first token is uniform, and each later one repeats the previous with
// probability stay and is otherwise drawn from its row of weights.
func Markov(length, tokens int, stay, sharp float64, seed uint64) *Model {
	m := setLine(&Model{
		name: fmt.Sprintf("markov:length=%d,tokens=%d,stay=%v,sharp=%v,seed=%d", length, tokens, stay,
			sharp, seed),
		tokens:          tokens,
		states:          tokens,
		tokensTellState: true,
	}, length)
	identity := identityMatrix(tokens)
	m.emit = func(int, int) []float64 { return identity }
	m.setTransitions(stay, sharp, seed)
	return m.finish()
}

// HMM returns a hidden chain of `hidden` states, built as in Markov, whose tokens are drawn from
// weights of the state.
func HMM(length, tokens, hidden int, stay, sharp float64, seed uint64) *Model {
	m := setLine(&Model{
		name: fmt.Sprintf("hmm:length=%d,tokens=%d,hidden=%d,stay=%v,sharp=%v,seed=%d", length, tokens,
			hidden, stay, sharp, seed),
		tokens: tokens,
		states: hidden,
	}, length)
	var table []float64
	for s := range hidden {
		table = append(table, drawWeights(tokens, sharp, seed, MaxTokens+s)...)
	}
	m.emit = func(int, int) []float64 { return table }
	m.setTransitions(stay, sharp, seed)
	return m.finish()
}

// Ising returns a grid of spins without wrap-around: p ~ exp(coupling * sum over neighbours of s*s'
// + field * sum of s), with tokens 0 and 1 for s = -1 and 1.
//
// A column is a site, and a state has one bit for each of its spins.
func Ising(height, width int, coupling, field float64) *Model {
	states := 1 << height
	m := &Model{
		name: fmt.Sprintf("ising:height=%d,width=%d,coupling=%v,field=%v", height, width, coupling,
			field),
		shape:           []int{height, width},
		tokens:          2,
		sites:           width,
		cells:           height,
		position:        func(site, cell int) int { return cell*width + site },
		states:          states,
		first:           make([]float64, states),
		step:            make([]float64, states*states),
		tokensTellState: true,
	}

	tables := make([][]float64, height)
	for row := range tables {
		tables[row] = make([]float64, 2*states)
		for s := range states {
			tables[row][2*s+s>>row&1] = 1
		}
	}
	m.emit = func(_, cell int) []float64 { return tables[cell] }

	spin := func(state, row int) float64 { return float64(2*(state>>row&1) - 1) }
	for s := range states {
		inColumn := 0.0
		for row := range height {
			inColumn += field * spin(s, row)
			if row > 0 {
				inColumn += coupling * spin(s, row) * spin(s, row-1)
			}
		}
		m.first[s] = math.Exp(inColumn)
		for before := range states {
			energy := inColumn
			for row := range height {
				energy += coupling * spin(s, row) * spin(before, row)
			}
			m.step[before*states+s] = math.Exp(energy)
		}
	}
	return m.finish()
}

// setLine sets m to a line of positions, one cell per site.
func setLine(m *Model, length int) *Model {
	m.shape = []int{length}
	m.sites = length
	m.cells = 1
	m.position = func(site, _ int) int { return site }
	return m
}

// setTransitions fills in a uniform start, and rows that stay or move by weights.
func (m *Model) setTransitions(stay, sharp float64, seed uint64) {
	for s := range m.states {
		m.first = append(m.first, 1/float64(m.states))
		row := drawWeights(m.states, sharp, seed, s)
		for next := range row {
			row[next] *= 1 - stay
		}
		row[s] += stay
		m.step = append(m.step, row...)
	}
}

// identityMatrix returns the identity [n, n]: the emissions of a chain whose states are its tokens.
func identityMatrix(n int) []float64 {
	matrix := make([]float64, n*n)
	for i := range n {
		matrix[i*n+i] = 1
	}
	return matrix
}

// drawWeights returns n probabilities: exponential random numbers to a power, normalised. index
// tells apart the weights of one seed.
func drawWeights(n int, sharp float64, seed uint64, index int) []float64 {
	r := philox.Stream{Seed: seed, Sequence: uint32(index)}
	w := make([]float64, n)
	for i := range w {
		w[i] = math.Pow(-math.Log(r.Uniform(i, philox.Setup)), sharp)
	}
	normalize(w)
	return w
}
