package oracle

import (
	_ "embed"
	"fmt"
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
	identity := make([]float64, k*k)
	for s := range k {
		identity[s*k+s] = 1
	}
	m.emit = func(int, int) []float64 { return identity }
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
	return m.finish()
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
