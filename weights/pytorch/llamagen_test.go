package pytorch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The published depths imply the grid for 256x256 pixels, unless the caller gives one.
func TestLlamaGenGrid(t *testing.T) {
	for levels, want := range map[int]int{2: 16, 4: 32, 5: 16} {
		c := &Checkpoint{root: newDict()}
		for i := range levels {
			c.tensors = append(c.tensors, &Tensor{Shape: []int{8, 8, 3, 3},
				Name: fmt.Sprintf("model.encoder.conv_blocks.%d.res.0.conv1.weight", i)})
		}
		for given, want := range map[int]int{0: want, 24: 24} {
			config, err := c.deriveConfig(Options{Grid: given})
			require.NoError(t, err)
			require.Equal(t, want, config["grid"])
		}
	}
}
