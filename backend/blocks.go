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
	Row  func(i int, dst []byte) // writes row i's blocks; called as a RowFunc is
}

// Blocker is a Backend that multiplies weights in block formats as they are: activations are
// rounded to 255 levels 32 at a time, products of levels are summed as integers, and only these
// sums become float32. Other devices get the weights' values through Pack.
type Blocker interface {
	// PackBlocks lays out matrices [Out, in] of one input as one, whose outputs follow each other.
	// in must be whole blocks of each.
	PackBlocks(in int, parts ...BlockRows) Matrix
}

// Unpacker is a Backend that multiplies no block formats, and has a precision that keeps what they
// say in less memory than float32: a model of 8 bits a weight and less would take four times its
// file.
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
