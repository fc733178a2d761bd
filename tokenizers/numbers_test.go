package tokenizers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/tokenizers"
)

func TestNumbers(t *testing.T) {
	n := tokenizers.Numbers(12)
	require.Equal(t, "3 11 \uFFFD", n.Decode([]int32{3, 11, 12}))
	ids, err := n.Encode(" 3\n11 0")
	require.NoError(t, err)
	require.Equal(t, []int32{3, 11, 0}, ids)
	for _, bad := range []string{"12", "-1", "x", "3,4"} {
		_, err := n.Encode(bad)
		require.ErrorContains(t, err, "want numbers 0 to 11 with spaces between")
	}
}

func TestIsNumeric(t *testing.T) {
	n := tokenizers.Numbers(12)
	require.True(t, tokenizers.IsNumeric(n))
	require.True(t, tokenizers.IsNumeric(tokenizers.WithMask(n, 11, "?")))
	require.False(t, tokenizers.IsNumeric(tokenizers.GPT2()))
}
