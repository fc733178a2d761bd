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
	out, in int
	as      backend.Precision
	rows    int // out, rounded up to whole tiles
	stride  int // bytes from row to row, a multiple of depthPad
	data    devicePtr
	scale   devicePtr // Int8: [rows] float32, one for each channel
}

const (
	rowPad = 256 // rows of activations in the largest tile
	// rows of weights in the widest tile; matrices of at most half as many rows use narrower ones
	columnPad = 256
	depthPad  = 128 // bytes of the longest step along the depth
)

// paddedRows returns the rows in device memory of a matrix of out rows.
func paddedRows(out int) int {
	if out <= columnPad/2 {
		return columnPad / 2
	}
	return roundUp(out, columnPad)
}

func (m *matrix) Out() int                     { return m.out }
func (m *matrix) In() int                      { return m.in }
func (m *matrix) Precision() backend.Precision { return m.as }

// Bytes returns the matrix's device memory in bytes.
func (m *matrix) Bytes() int {
	n := m.rows * m.stride
	if m.as == backend.Int8 {
		n += 4 * m.rows
	}
	return n
}

var numberBytes = [...]int{backend.F32: 4, backend.BF16: 2, backend.Int8: 1}

const (
	packBytes = 4 << 20 // of rows that are in host memory at a time
	// depth from which sums of int8 products could overflow int32
	maxInt8 = math.MaxInt32 / (127 * 127)
)

// DecodedPrecision implements backend.BlockDecoder: weights of block formats become bfloat16,
// because there are no kernels for them.
func (b *Backend) DecodedPrecision() backend.Precision { return backend.BF16 }

// Pack copies a weight matrix to the device, a few rows at a time; all processors make the rows.
func (b *Backend) Pack(out, in int, as backend.Precision, row backend.RowFunc) backend.Matrix {
	if out < 1 || in < 1 || int(as) >= len(numberBytes) || as == backend.Int8 && in > maxInt8 {
		panic(fmt.Sprintf("Pack: [%d, %d] weights as %d", out, in, as))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if as == backend.BF16 {
		b.copies.narrow(in)
	}
	m := &matrix{out: out, in: in, as: as, rows: paddedRows(out),
		stride: roundUp(in*numberBytes[as], depthPad)}
	bytes := m.Bytes()
	m.data = b.allocate(bytes)
	runtime.AddCleanup(m, b.arena.leave, m.data)
	m.scale = m.data + devicePtr(m.rows*m.stride)
	b.zero(m.data, bytes)

	each := min(max(1, packBytes/m.stride), out)
	stage, scales := make([]byte, each*m.stride), make([]float32, out)
	pool := b.products.workers()
	scratch := make([][]float32, pool.Threads())
	for first := 0; first < out; first += each {
		n := min(each, out-first)
		pool.For(n, func(worker, i int) {
			if scratch[worker] == nil {
				scratch[worker] = make([]float32, in)
			}
			x := scratch[worker]
			clear(x)
			row(first+i, x)
			scales[first+i] = m.round(stage[i*m.stride:(i+1)*m.stride], x)
		})
		b.store(m.data+devicePtr(first*m.stride), stage[:n*m.stride])
	}
	if as == backend.Int8 {
		b.store(m.scale, bytesOf(scales))
	}
	b.flush() // so that no row waits in host memory
	return m
}

// round writes a row in the device's format and returns its scale.
func (m *matrix) round(to []byte, x []float32) (scale float32) {
	switch m.as {
	case backend.F32:
		copy(to, bytesOf(x))
	case backend.BF16:
		for i, v := range x {
			binary.LittleEndian.PutUint16(to[2*i:], bfloat16.Round(v))
		}
	case backend.Int8:
		var top float32
		for _, v := range x {
			top = max(top, float32(math.Abs(float64(v))))
		}
		if top == 0 {
			return 0
		}
		inverse := 127 / top
		for i, v := range x {
			to[i] = byte(int8(math.RoundToEven(float64(v * inverse))))
		}
		return top / 127
	}
	return 1
}
