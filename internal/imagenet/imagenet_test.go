package imagenet_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/imagenet"
)

func TestNames(t *testing.T) {
	list := imagenet.Names()
	require.Len(t, list, 1000)
	seen := map[string]bool{}
	for i, name := range list {
		require.Equal(t, strings.TrimSpace(name), name)
		require.NotEmpty(t, name)
		require.False(t, seen[strings.ToLower(name)], name)
		seen[strings.ToLower(name)] = true
		require.NotContains(t, name, "\n", "class %d", i)
	}
	for class, name := range map[int]string{0: "tench", 88: "macaw", 207: "golden retriever",
		388: "giant panda", 555: "fire engine",
		817: "sports car", 933: "cheeseburger", 980: "volcano", 999: "toilet tissue"} {
		require.Equal(t, name, list[class])
	}
}
