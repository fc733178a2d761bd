package exact_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
)

// letters.txt has the counts of the text that the comment of counted names.
func TestLettersAreCounted(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)),
		"src/testdata/Isaac.Newton-Opticks.txt"))
	if err != nil {
		t.Skipf("this Go has no such text: %v", err)
	}
	const alphabet = "abcdefghijklmnopqrstuvwxyz "
	words := bytes.FieldsFunc(bytes.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' })
	line := append(bytes.Join(words, []byte(" ")), ' ')
	var counts [len(alphabet)][len(alphabet)]int
	for i, c := range line {
		next := line[(i+1)%len(line)]
		counts[strings.IndexByte(alphabet, c)][strings.IndexByte(alphabet, next)]++
	}
	var want strings.Builder
	for _, row := range counts {
		fmt.Fprintln(&want, strings.Trim(fmt.Sprint(row), "[]"))
	}
	have, err := os.ReadFile("letters.txt")
	require.NoError(t, err)
	require.Equal(t, want.String(), string(have))
}

// Pairs are those of neighbours at any place, and everything is possible.
func TestLetters(t *testing.T) {
	m := exact.Letters(5)
	k := m.Tokens()
	require.Equal(t, "the q", exact.Symbols(m, "_").Decode([]int32{19, 7, 4, 26, 16}))
	ids, err := exact.Symbols(m, "_").Encode("the q\n")
	require.NoError(t, err)
	require.Equal(t, []int32{19, 7, 4, 26, 16}, ids)
	pairs, sum := m.Pairs(), 0.0
	for _, p := range pairs {
		require.Positive(t, p)
		sum += p
	}
	require.InDelta(t, 1, sum, 1e-12)
	x := []int32{int32(k), int32(k), int32(k), 0, 0}
	for _, ab := range [][2]int32{{19, 7}, {26, 26}, {16, 20}} {
		for at := range 4 {
			for i := range x {
				x[i] = int32(k)
			}
			x[at], x[at+1] = ab[0], ab[1]
			require.InEpsilon(t, pairs[int(ab[0])*k+int(ab[1])], math.Exp(m.LogProb(x)), 1e-9)
		}
	}

	// Conditionals by distances are those by the definition.
	x = []int32{int32(k), 4, int32(k), int32(k), 26}
	p := make([]float64, len(x)*k)
	require.InDelta(t, m.LogProb(x), m.Conditionals(p, x), 1e-9)
	for at := range x {
		other, weights, sum := slices.Clone(x), make([]float64, k), 0.0
		for token := range weights {
			other[at] = int32(token)
			weights[token] = math.Exp(m.LogProb(other))
			sum += weights[token]
		}
		for token, w := range weights {
			require.InDelta(t, w/sum, p[at*k+token], 1e-12)
		}
	}
	h, deviation := m.Entropy()
	require.Zero(t, deviation)
	one, _ := exact.Letters(1).Entropy()
	require.InDelta(t, 2.214, (h-one)/4, 0.001) // nats a letter
}

// Pairs are those at a place drawn at random, by the definition.
func TestPairs(t *testing.T) {
	for _, text := range []string{"product:length=5,tokens=3", "markov:length=6,tokens=4,stay=0.5",
		"hmm:length=5,tokens=3,hidden=4,stay=0.7", "letters:length=4"} {
		m := parse(t, text)
		k := m.Tokens()
		places := float64(m.Length() - 1)
		want := make([]float64, k*k)
		for at := range m.Length() - 1 {
			for pair := range want {
				x := slices.Repeat([]int32{int32(k)}, m.Length())
				x[at] = int32(pair / k)
				x[at+1] = int32(pair % k)
				want[pair] += math.Exp(m.LogProb(x)) / places
			}
		}
		require.InDeltaSlice(t, want, m.Pairs(), 1e-12, text)
	}
	require.Nil(t, parse(t, "ising").Pairs())
	require.Nil(t, parse(t, "markov:length=1").Pairs())
}
