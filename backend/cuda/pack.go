//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"

	"unmask/backend"
	"unmask/internal/bfloat16"
)

// matrix is a weight matrix [out, in] in device memory, row by row, padded with zeros to whole
// tiles.
type matrix struct {
	out, in   int
	precision backend.Precision

	// rows are out, rounded up to whole tiles.
	rows int

	// stride is the bytes from row to row, a multiple of depthPad.
	stride int

	data  devicePtr
	scale devicePtr // with Int8, [rows] float32, one for each channel
}

// Kernels read whole tiles without checking bounds, so that operands are padded to the largest.
const (
	// rowPad are the rows of activations in the largest tile.
	rowPad = 256

	// columnPad are the rows of weights in the widest tile; matrices of at most half as many rows
	// use narrower ones.
	columnPad = 256

	// depthPad are the bytes of the longest step along the depth.
	depthPad = 128
)

// paddedRows returns the number of rows that a matrix of out rows has in device memory.
func paddedRows(out int) int {
	if out <= columnPad/2 {
		return columnPad / 2
	}
	return roundUp(out, columnPad)
}

func (m *matrix) Out() int                     { return m.out }
func (m *matrix) In() int                      { return m.in }
func (m *matrix) Precision() backend.Precision { return m.precision }

// Bytes returns the matrix's device memory in bytes.
func (m *matrix) Bytes() int {
	n := m.rows * m.stride
	if m.precision == backend.Int8 {
		n += 4 * m.rows
	}
	return n
}

// numberBytes is the size of a weight.
var numberBytes = [...]int{backend.F32: 4, backend.BF16: 2, backend.Int8: 1}

// packBytes are the bytes of the rows that are in host memory at a time, so that packing a large
// model takes little of it.
const packBytes = 4 << 20

// maxInt8Depth is the largest depth for which sums of int8 products cannot overflow int32.
const maxInt8Depth = math.MaxInt32 / (127 * 127)

// DecodedPrecision implements backend.BlockDecoder: weights of block formats become bfloat16,
// because there are no kernels for them.
func (b *Backend) DecodedPrecision() backend.Precision { return backend.BF16 }

// Pack copies a weight matrix to the device, a few rows at a time; all processors make the rows.
func (b *Backend) Pack(out, in int, precision backend.Precision,
	row backend.RowFunc) backend.Matrix {
	if out < 1 || in < 1 || int(precision) >= len(numberBytes) ||
		precision == backend.Int8 && in > maxInt8Depth {
		panic(fmt.Sprintf("Pack: [%d, %d] weights as %d", out, in, precision))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if precision == backend.BF16 {
		b.copies.addDepth(in)
	}
	m := &matrix{
		out:       out,
		in:        in,
		precision: precision,
		rows:      paddedRows(out),
		stride:    roundUp(in*numberBytes[precision], depthPad),
	}
	bytes := m.Bytes()
	m.data = b.allocate(bytes)
	runtime.AddCleanup(m, b.arena.releaseLater, m.data)
	m.scale = m.data + devicePtr(m.rows*m.stride)
	b.zero(m.data, bytes)

	group := min(max(1, packBytes/m.stride), out)
	rounded := make([]byte, group*m.stride)
	scales := make([]float32, out)
	pool := b.products.workers()
	values := make([][]float32, pool.Threads()) // a row for each worker
	for first := 0; first < out; first += group {
		n := min(group, out-first)
		pool.For(n, func(worker, i int) {
			if values[worker] == nil {
				values[worker] = make([]float32, in)
			}
			x := values[worker]
			clear(x)
			row(first+i, x)
			scales[first+i] = m.roundRow(rounded[i*m.stride:(i+1)*m.stride], x)
		})
		b.store(m.data+devicePtr(first*m.stride), rounded[:n*m.stride])
	}
	if precision == backend.Int8 {
		b.store(m.scale, bytesOf(scales))
	}
	b.flush() // so that no row waits in host memory
	return m
}

// roundRow writes a row x [in] to dst in the device's format and returns its scale. The levels of
// Int8 are -127..127 times the largest magnitude's 127th part.
func (m *matrix) roundRow(dst []byte, x []float32) (scale float32) {
	switch m.precision {
	case backend.F32:
		copy(dst, bytesOf(x))
	case backend.BF16:
		for i, v := range x {
			binary.LittleEndian.PutUint16(dst[2*i:], bfloat16.Round(v))
		}
	case backend.Int8:
		var top float32
		for _, v := range x {
			top = max(top, float32(math.Abs(float64(v))))
		}
		if top == 0 { // with this scale no level matters
			return 0
		}
		inverse := 127 / top
		for i, v := range x {
			dst[i] = byte(int8(math.RoundToEven(float64(v * inverse))))
		}
		return top / 127
	}
	return 1
}
