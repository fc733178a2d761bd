package backend

import (
	"fmt"

	"gorgonia.org/tensor"

	"unmask/internal/quant"
)

// Grouped is a Backend that says how many rows of activations it needs at once for arithmetic alone
// to limit it.
type Grouped interface {
	GroupRows() int
}

// processorRows is the rows of a group on a CPU: enough to amortise reading the weights once.
const processorRows = 2048

// GroupRows returns about how many rows should go through a network at once on b. More rows would
// only take more working memory.
func GroupRows(b Backend) int {
	if g, ok := b.(Grouped); ok {
		return g.GroupRows()
	}
	return processorRows
}

// Sender is a Backend that records calls until something is read.
type Sender interface {
	Send()
}

// Send has b start the calls recorded so far, without waiting. Use it where the calls before are
// the same in every step of a run and those after are not: such a device recognises what was sent
// as a whole.
func Send(b Backend) {
	if s, ok := b.(Sender); ok {
		s.Send()
	}
}

// MemoryReporter is a Backend with limited memory of its own.
type MemoryReporter interface {
	// MemoryFree returns the bytes that are free and those that the device has.
	MemoryFree() (free, total int, err error)
}

// HeadLimited is a Backend whose Attention supports heads only up to a certain width.
type HeadLimited interface {
	MaxHeadDim() int
}

// Grow returns t, or a new tensor when it has fewer than `rows` rows.
func Grow(b Backend, t *tensor.Dense, rows, width int) *tensor.Dense {
	if t == nil || t.Shape()[0] < rows {
		return b.New(rows, width)
	}
	return t
}

// Doubler is a Backend that convolves doubled images in fewer multiplications than Conv does with
// Upsample.
//
// The pixels of a doubled image are equal in blocks of 2x2, so that a 3x3 window of it covers 2x2
// pixels of the image itself. The weights of taps on the same pixel are added beforehand
// (FoldDoubled), which leaves four of nine multiplications. Which taps share a pixel depends on
// whether the row and the column of the result are even or odd, so there are four matrices.
type Doubler interface {
	// ConvDoubled is Conv for a shape with Upsample, 3x3 windows, padding 1 and stride 1. w[2*y+x]
	// [Out, 4*In] are the folded weights of the result's pixels whose row is y and whose column is x
	// modulo 2.
	ConvDoubled(dst, x *tensor.Dense, s ConvShape, w *[4]Matrix, in ConvInput, e Epilogue)
}

// FoldDoubled writes a row [4*in] of ConvDoubled's w[phase] from the row [9*in] of Conv's weights.
// Taps are rows of windows, then columns, the input channel fastest in both.
func FoldDoubled(dst, row []float32, in, phase int) {
	clear(dst[:4*in])
	for t := range 9 {
		// Of three taps in line, an even pixel has two on its own source, and so has an odd one: the
		// last two or the first two.
		y := (t/3 + 1 - phase/2) / 2
		x := (t%3 + 1 - phase%2) / 2
		sum := dst[(2*y+x)*in:][:in]
		for c, v := range row[t*in:][:in] {
			sum[c] += v
		}
	}
}

// SnakeActivation is a Backend with the periodic activation of sound codecs (Ziyin et al. 2020,
// "Neural networks fail to learn periodic functions and how to fix it"), x + sin(alpha x)^2/(alpha
// + 1e-9) with an alpha for each channel.
type SnakeActivation interface {
	Backend
	// Snake computes rows of x's channels: dst[i] = snake(x[from[i]]), zeros where from[i] is -1.
	// So a convolution's margins and the order of its rows cost nothing. dst and x are of any shape,
	// [*, channels]; alpha is [2, channels]: each alpha, then each 1/(alpha + 1e-9). dst must not
	// be x.
	Snake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense)
}

// CheckSnake checks the arguments of Snake.
func CheckSnake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense) {
	channels := alpha.DataSize() / 2
	if dst == x || dst.DataSize() < len(from)*channels {
		misuse("Snake", "dst is %v, need another than x, [>=%d, %d]", dst.Shape(), len(from), channels)
	}
	for i, r := range from {
		if r < -1 || (int(r)+1)*channels > x.DataSize() {
			misuse("Snake", "index %d is row %d of %v, %d channels", i, r, x.Shape(), channels)
		}
	}
}

// BlockType is a block format of GGUF files: Q8_0, Q4_0, Q4_K, Q5_K or Q6_K.
type BlockType = quant.Type

// BlockRows are rows of weights in a block format.
type BlockRows struct {
	// Out is the number of rows.
	Out int

	Type BlockType

	// Row writes row i's blocks to dst. Like a RowFunc, it is called from several goroutines.
	Row func(i int, dst []byte)
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

// BlockDecoder is a Backend that does not multiply block formats but has a precision that keeps
// their values in less memory than float32; in float32 a model of 8 bits per weight would take four
// times its file's size.
type BlockDecoder interface {
	DecodedPrecision() Precision
}

// CheckBlocks checks the arguments of PackBlocks and returns the number of outputs.
func CheckBlocks(in int, parts []BlockRows) (out int) {
	if len(parts) == 0 {
		panic("PackBlocks: no rows")
	}
	for _, p := range parts {
		if p.Out < 1 || in < 1 || in%p.Type.Values() != 0 {
			panic(fmt.Sprintf("PackBlocks: [%d, %d] weights of %v, need rows of whole blocks of %d",
				p.Out, in, p.Type, p.Type.Values()))
		}
		out += p.Out
	}
	return out
}
