//go:build (amd64 || arm64) && !purego

package gemm

import "unmask/internal/quant"

var assembled = finish{fetchRows, timesRows, storeRows}

// assembly returns a kernel of generated code, of one function for each height.
func assembly(f Format, columns, cache int, heights []int, run ...multiply) *Kernel {
	k := &Kernel{
		Format:  f,
		Rows:    heights[0],
		Columns: columns,
		Cache:   cache,
		pack:    packers[f],
		bytes:   packBytes,
		flip:    flip,
		finish:  assembled,
		scale:   scaleRows,
		largest: absMax,
		turn:    turnWords,
	}
	for i, rows := range heights {
		k.heights = append(k.heights, height{rows, run[i]})
	}
	return k
}

// oneRow are the kernels of one row and 16 columns, for levels as they are packed.
var oneRow = [...][]blockHeight{
	quant.Q8_0: nil,
	quant.Q4_0: blockHeights(5, true, []int{1}, mulBlocksFour_1x16),
	quant.Q4_K: blockHeights(5, true, []int{1}, mulBlocksFour_1x16),
	quant.Q5_K: blockHeights(8, true, []int{1}, mulBlocksFive_1x16),
	quant.Q6_K: blockHeights(8, true, []int{1}, mulBlocksSix_1x16),
}

// unpackers make bytes of levels.
var unpackers = [...]func(dst, src, high *float32, width, half, blocks, stride int){
	quant.Q4_0: unpackLow, quant.Q4_K: unpackLow, quant.Q5_K: unpackFive, quant.Q6_K: unpackSix,
	quant.Q8_0: nil}
