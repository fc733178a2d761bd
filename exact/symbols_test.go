package exact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
)

func TestSymbols(t *testing.T) {
	few := exact.Symbols(parse(t, "markov:length=4,tokens=3"), "_")
	require.Equal(t, "ab_c", few.Decode([]int32{0, 1, 3, 2}))
	require.Equal(t, "\uFFFD", few.Decode([]int32{4}))
	ids, err := few.Encode("cab")
	require.NoError(t, err)
	require.Equal(t, []int32{2, 0, 1}, ids)
	_, err = few.Encode("d")
	require.EqualError(t, err, `oracle: symbol 'd', want letters a to c`)

	grid := exact.Symbols(parse(t, "ising:height=2,width=3"), "_")
	require.Equal(t, "aba\nb_a", grid.Decode([]int32{0, 1, 0, 1, 2, 0}))

	many := exact.Symbols(parse(t, "product:length=4,tokens=40"), "_")
	require.Equal(t, "0 39 _ ", many.Decode([]int32{0, 39, 40}))
	ids, err = many.Encode(" 7  39")
	require.NoError(t, err)
	require.Equal(t, []int32{7, 39}, ids)
	_, err = many.Encode("40")
	require.EqualError(t, err, `oracle: symbol "40", want numbers 0 to 39 with spaces between`)
}
