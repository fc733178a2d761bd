package pytorch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The grid is that of 256x256 pixels for the two published depths, unless the caller gives it.
func TestLlamaGenGrid(t *testing.T) {
	for levels, want := range map[int]int{2: 16, 4: 32, 5: 16} {
		s := &shapes{prefix: "model.", of: map[string][]int{}}
		for i := range levels {
			s.of[fmt.Sprintf("model.encoder.conv_blocks.%d.res.0.conv1.weight", i)] = []int{8, 8, 3, 3}
		}
		require.Equal(t, want, llamagenConfig(s, Options{}).Grid)
		require.Equal(t, 24, llamagenConfig(s, Options{Grid: 24}).Grid)
	}
}
