package backend

import (
	"fmt"

	"unmask/internal/quant"
)

// BlockType is a block format of GGUF files: Q8_0, Q4_0, Q4_K, Q5_K or Q6_K.
type BlockType = quant.Type

// BlockRows are rows of weights in a block format.
type BlockRows struct {
	Out  int // rows
	Type BlockType
	Row  func(i int, dst []byte) // writes row i's blocks; concurrency as for RowFunc
}

// BlockPacker is a Backend that multiplies weights in block formats directly: activations are
// rounded to 255 levels per 256 values, or per 32 in rows of fewer than 256, products of levels are
// summed as integers, and only these sums become float32. Other devices get the weights' values
// through Pack.
type BlockPacker interface {
	// PackBlocks packs matrices [Out, in] with the same input as one matrix with their outputs in
	// order. in must be whole blocks of each format.
	PackBlocks(in int, parts ...BlockRows) Matrix
}

// Unpacker is a Backend that does not multiply block formats but has a precision that keeps their
// values in less memory than float32; in float32 a model of 8 bits per weight would take four times
// its file's size.
type Unpacker interface {
	Unpacks() Precision
}

// CheckBlocks checks the arguments of PackBlocks and returns the number of outputs.
func CheckBlocks(in int, parts []BlockRows) (out int) {
	if len(parts) == 0 {
		panic("PackBlocks: no rows")
	}
	for _, p := range parts {
		if p.Out < 1 || in < 1 || in%p.Type.Values() != 0 {
			panic(fmt.Sprintf("PackBlocks: [%d, %d] weights of %v, need rows of whole blocks of %d", p.Out,
				in, p.Type, p.Type.Values()))
		}
		out += p.Out
	}
	return out
}
