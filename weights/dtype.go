package weights

import "unmask/internal/quant"

// DType is the type of a tensor's elements, with safetensors' name. A file may have types that this
// package does not know, as long as nobody converts these tensors.
type DType string

// The types of https://github.com/huggingface/safetensors (tensor.rs, Dtype).
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U64  DType = "U64"
	U32  DType = "U32"
	U16  DType = "U16"
	U8   DType = "U8"
	BOOL DType = "BOOL"
)

// The block formats of GGUF files (https://github.com/ggml-org/ggml, ggml-common.h): rows are
// blocks of 32 or 256 elements with scales.
const (
	Q8_0 DType = "Q8_0"
	Q4_0 DType = "Q4_0"
	Q4_K DType = "Q4_K"
	Q5_K DType = "Q5_K"
	Q6_K DType = "Q6_K"
	Q4_1 DType = "Q4_1"
	Q5_0 DType = "Q5_0"
	Q5_1 DType = "Q5_1"
	Q2_K DType = "Q2_K"
	Q3_K DType = "Q3_K"

	IQ4_NL DType = "IQ4_NL"
)

// elementBits has the bits of one element. It knows more types than can be converted, so that files
// with them are checked for size and can be copied.
var elementBits = map[DType]int{
	F64:           64,
	F32:           32,
	F16:           16,
	BF16:          16,
	I64:           64,
	I32:           32,
	I16:           16,
	I8:            8,
	U64:           64,
	U32:           32,
	U16:           16,
	U8:            8,
	BOOL:          8,
	"C64":         64,
	"F8_E4M3":     8,
	"F8_E5M2":     8,
	"F8_E8M0":     8,
	"F8_E4M3FNUZ": 8,
	"F8_E5M2FNUZ": 8,
	"F6_E2M3":     6,
	"F6_E3M2":     6,
	"F4":          4,
}

// Bits returns the size of one element in bits, 0 for an unknown type and for block formats.
func (d DType) Bits() int { return elementBits[d] }

// Block returns the elements in a block and its size in bytes. For types without blocks these are 1
// and the element's size; for an unknown type, or one of less than a byte, 0 and 0.
func (d DType) Block() (values, bytes int) {
	if q, ok := quant.Parse(string(d)); ok {
		return q.Values(), q.Bytes()
	}
	if bits := elementBits[d]; bits > 0 && bits%8 == 0 {
		return 1, bits / 8
	}
	return 0, 0
}

// IsFloat reports whether [Tensor.Float32s] converts the type: floats and block formats.
func (d DType) IsFloat() bool {
	_, isBlocks := quant.Parse(string(d))
	return isBlocks || d == F64 || d == F32 || d == F16 || d == BF16
}

// IsInt reports whether [Tensor.Int64s] converts the type.
func (d DType) IsInt() bool {
	switch d {
	case I64, I32, I16, I8, U64, U32, U16, U8, BOOL:
		return true
	}
	return false
}
