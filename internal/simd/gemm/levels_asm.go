//go:build (amd64 || arm64) && !purego

package gemm

import "unmask/internal/quant"

// oneRow are the kernels of one row and 16 columns, for levels as they are packed.
var oneRow = [...][]blockHeight{
	quant.Q8_0: nil,
	quant.Q4_0: blockHeights(5, true, []int{1}, mulBlocksFour_1x16),
	quant.Q4_K: blockHeights(5, true, []int{1}, mulBlocksFour_1x16),
	quant.Q5_K: blockHeights(8, true, []int{1}, mulBlocksFive_1x16),
	quant.Q6_K: blockHeights(8, true, []int{1}, mulBlocksSix_1x16),
}
