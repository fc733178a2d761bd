package gguf

import (
	"encoding/binary"
	"math"

	"unmask/internal/float16"
	"unmask/internal/quant"
	"unmask/weights"
)

// encode writes values in a type: F32, F16 or a block format.
func encode(as weights.DType, dst []byte, x []float32) {
	switch as {
	case weights.F32:
		for i, v := range x {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case weights.F16:
		for i, v := range x {
			binary.LittleEndian.PutUint16(dst[2*i:], float16.Round(v))
		}
	default:
		q, _ := quant.Parse(string(as))
		quant.Encode(q, dst, x)
	}
}
