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

// pairCounts has the pairs of neighbouring letters of Isaac Newton's Opticks (1730, in the public
// domain; src/testdata/Isaac.Newton-Opticks.txt of every Go distribution): row a, column b is how
// often b follows a. The text is in small letters, all else between two letters is one space, and
// its end is followed by its beginning, so that a letter ends as many pairs as it begins.
//
//go:embed letters.txt
var pairCounts string

// Letters returns a Markov chain of English letters: a to z and a space, tokens 0 to 26. Each pair
// of letters counts once more than in the text, so that everything is possible. The first letter
// is drawn as all later ones are.
func Letters(length int) *Model {
	k := len(alphabet)
	m := setLine(&Model{
		name:            fmt.Sprintf("letters:length=%d", length),
		tokens:          k,
		states:          k,
		alphabet:        alphabet,
		tokensTellState: true,
	}, length)
	identity := identityMatrix(k)
	m.emit = func(int, int) []float64 { return identity }

	for field := range strings.FieldsSeq(pairCounts) {
		n, err := strconv.Atoi(field)
		if err != nil {
			panic("oracle: letters.txt: " + err.Error())
		}
		m.step = append(m.step, float64(n+1))
	}
	// Counts become probabilities. How often a letter occurs at all is the sum of its row.
	for s := range k {
		occurrences := normalize(m.step[s*k : (s+1)*k])
		m.first = append(m.first, occurrences)
	}
	normalize(m.first)

	m.powers = [][]float64{identity}
	for len(m.powers) < length {
		m.powers = append(m.powers, multiply(m.powers[len(m.powers)-1], m.step, k))
	}
	return m.finish()
}

// multiply returns the product of two matrices [k, k].
func multiply(a, b []float64, k int) []float64 {
	product := make([]float64, k*k)
	for i := range k {
		for j, v := range a[i*k : (i+1)*k] {
			for column, w := range b[j*k : (j+1)*k] {
				product[i*k+column] += v * w
			}
		}
	}
	return product
}

// conditionalsByPowers is conditionals for a stationary chain of tokens: what stands at a position
// depends on the nearest open positions left and right alone, by powers of the transitions, which
// takes a tenth of the time of messages.
func (m *Model) conditionalsByPowers(p []float64, x []int32, isAsked []bool) (logP float64) {
	k := m.tokens
	left := -1 // the last open position before the current one
	right := 0 // the next one after it
	for position := range x {
		if isAsked != nil && !isAsked[position] && int(x[position]) >= k {
			continue
		}
		right = max(right, position+1)
		for right < len(x) && int(x[right]) >= k {
			right++
		}

		out := p[position*k : (position+1)*k]
		copy(out, m.first)
		if left >= 0 {
			row := int(x[left]) * k
			copy(out, m.powers[position-left][row:row+k])
		}
		if int(x[position]) < k {
			logP += math.Log(out[x[position]])
			left = position
		}
		if right < len(x) {
			column := m.powers[right-position][x[right]:]
			for s := range out {
				out[s] *= column[s*k]
			}
		}
		normalize(out)
	}
	return logP
}
