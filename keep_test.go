package unmask

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"
)

// Grammars are kept up to a bound in bytes, and an owner of many does not displace another's.
func TestKeptGrammarsAreBounded(t *testing.T) {
	k := newGrammars(&Model{})
	keep := func(owner string, n byte, bytes int) *compiledGrammar {
		c := &compiledGrammar{key: sha256.Sum256([]byte{owner[0], n}), owner: owner, bytes: bytes}
		k.keep(c)
		return c
	}
	mine := keep("b", 0, maxGrammars/4)
	for n := range byte(100) {
		keep("a", n, maxGrammars/10)
	}
	require.Same(t, mine, k.known(mine.key))
	require.Equal(t, map[string]int{"a": 7 * (maxGrammars / 10), "b": maxGrammars / 4}, k.bytes)
	require.Equal(t, 8, k.used.Len())
	require.Len(t, k.byKey, 8)
	require.Nil(t, k.known(sha256.Sum256([]byte{'a', 0})))
	keep("c", 0, 2*maxGrammars)
	require.NotContains(t, k.bytes, "c")
	require.Same(t, mine, k.known(mine.key))
}
