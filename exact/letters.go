package exact

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// alphabet has the tokens of Letters in order.
const alphabet = "abcdefghijklmnopqrstuvwxyz "

// counted has the pairs of neighbouring letters of Isaac Newton's Opticks (1730, in the public
// domain; src/testdata/Isaac.Newton-Opticks.txt of every Go distribution): row a, column b is how
// often b follows a. The text is in small letters, all else between two letters is one space, and
// its end is followed by its beginning, so that a letter ends as many pairs as it begins.
//
//go:embed letters.txt
var counted string

// Letters returns a Markov chain of English letters: a to z and a space, tokens 0 to 26. Each pair
// of letters counts once more than in the text, so that everything is possible. The first letter
// is drawn as all later ones are.
func Letters(length int) *Model {
	k := len(alphabet)
	m := line(&Model{name: fmt.Sprintf("letters:length=%d", length), tokens: k, states: k,
		alphabet: alphabet, transparent: true}, length)
	one := make([]float64, k*k)
	for s := range k {
		one[s*k+s] = 1
	}
	m.emit = func(int, int) []float64 { return one }
	for field := range strings.FieldsSeq(counted) {
		n, err := strconv.Atoi(field)
		if err != nil {
			panic("oracle: letters.txt: " + err.Error())
		}
		m.step = append(m.step, float64(n+1))
	}
	for s := range k {
		m.first = append(m.first, scale(m.step[s*k:(s+1)*k]))
	}
	scale(m.first)
	for m.powers = [][]float64{one}; len(m.powers) < length; {
		m.powers = append(m.powers, product(m.powers[len(m.powers)-1], m.step, k))
	}
	return m.finish()
}

// product returns the product of two matrices [k, k].
func product(a, b []float64, k int) []float64 {
	out := make([]float64, k*k)
	for i := range k {
		for j, v := range a[i*k : (i+1)*k] {
			for at, w := range b[j*k : (j+1)*k] {
				out[i*k+at] += v * w
			}
		}
	}
	return out
}

// between is conditionals for a stationary chain of tokens: what stands at a position depends on
// the nearest open positions left and right alone, by powers of the transitions, which takes a
// tenth of the time of messages.
func (m *Model) between(p []float64, x []int32) (logP float64) {
	k, left := m.tokens, -1
	right := 0 // the next open position after the current one
	for at := range x {
		for right = max(right, at+1); right < len(x) && int(x[right]) >= k; {
			right++
		}
		out := p[at*k : (at+1)*k]
		copy(out, m.first)
		if left >= 0 {
			row := int(x[left]) * k
			copy(out, m.powers[at-left][row:row+k])
		}
		if int(x[at]) < k {
			logP += math.Log(out[x[at]])
			left = at
		}
		if right < len(x) {
			to := m.powers[right-at][x[right]:]
			for s := range out {
				out[s] *= to[s*k]
			}
		}
		scale(out)
	}
	return logP
}

// Pairs returns how probable each pair of neighbouring tokens is, [tokens, tokens], for a model
// with one hidden state a token in which all pairs of neighbours have the same distribution; nil
// for any other model.
func (m *Model) Pairs() []float64 {
	if m.alphabet == "" {
		return nil
	}
	p := make([]float64, 0, len(m.step))
	for s, first := range m.first {
		for _, next := range m.step[s*m.states : (s+1)*m.states] {
			p = append(p, first*next)
		}
	}
	return p
}
