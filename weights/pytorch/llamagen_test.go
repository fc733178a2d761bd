package pytorch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The published depths imply the grid for 256x256 pixels, unless the caller gives one.
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
