package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"unmask/internal/float16"
	"unmask/internal/quant"
	"unmask/weights"
)

// Key is a key to write. Its value is a bool, uint32, float32, string, []string or []int32.
type Key struct {
	Name  string
	Value any
}

// Tensor is a tensor to write, [rows, width] or [width].
type Tensor struct {
	Name  string
	DType weights.DType
	Shape []int // slowest first

	// Write writes all bytes of the tensor. It is called when the tensor's turn comes, so that only
	// one is in memory.
	Write func(w io.Writer) error
}

// numberByDType maps types to their numbers in ggml.
var numberByDType = func() map[weights.DType]uint32 {
	m := map[weights.DType]uint32{}
	for n, t := range dtypeByNumber {
		m[t] = n
	}
	return m
}()

// Write writes a file of version 3 with the default alignment, with keys and tensors in the given
// order.
func Write(w io.Writer, keys []Key, tensors []Tensor) error {
	le := binary.LittleEndian
	header := le.AppendUint32([]byte("GGUF"), 3)
	header = le.AppendUint64(header, uint64(len(tensors)))
	header = le.AppendUint64(header, uint64(len(keys)))
	for _, k := range keys {
		header = appendKey(header, k)
	}

	offset := uint64(0)
	sizes := make([]uint64, len(tensors))
	for i, t := range tensors {
		var err error
		if sizes[i], err = t.byteSize(); err != nil {
			return err
		}
		header = appendText(header, t.Name)
		header = le.AppendUint32(header, uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			header = le.AppendUint64(header, uint64(d))
		}
		header = le.AppendUint32(header, numberByDType[t.DType])
		header = le.AppendUint64(header, offset)
		offset += (sizes[i] + alignment - 1) / alignment * alignment
	}
	header = append(header, make([]byte, -len(header)&(alignment-1))...)
	if _, err := w.Write(header); err != nil {
		return err
	}

	for i, t := range tensors {
		c := &countingWriter{w: w}
		if err := t.Write(c); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if c.written != sizes[i] { // all offsets after it, which are written, would be wrong
			return fmt.Errorf("tensor %q: %d bytes were written, want %d", t.Name, c.written, sizes[i])
		}
		padding := make([]byte, -int(c.written)&(alignment-1))
		if _, err := w.Write(padding); err != nil {
			return err
		}
	}
	return nil
}

// appendText appends a text and its length.
func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendKey appends a key's name, type and value.
func appendKey(b []byte, k Key) []byte {
	le := binary.LittleEndian
	appendKind := func(k kind) { b = le.AppendUint32(b, uint32(k)) }
	appendArrayHead := func(elementKind kind, n int) {
		appendKind(kindArray)
		appendKind(elementKind)
		b = le.AppendUint64(b, uint64(n))
	}

	b = appendText(b, k.Name)
	switch v := k.Value.(type) {
	case bool:
		appendKind(kindBool)
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	case uint32:
		appendKind(kindUint32)
		b = le.AppendUint32(b, v)
	case float32:
		appendKind(kindFloat32)
		b = le.AppendUint32(b, math.Float32bits(v))
	case string:
		appendKind(kindText)
		b = appendText(b, v)
	case []string:
		appendArrayHead(kindText, len(v))
		for _, s := range v {
			b = appendText(b, s)
		}
	case []int32:
		appendArrayHead(kindInt32, len(v))
		for _, n := range v {
			b = le.AppendUint32(b, uint32(n))
		}
	default:
		panic(fmt.Sprintf("gguf: Write: key %s is a %T", k.Name, k.Value))
	}
	return b
}

// byteSize returns the tensor's size in bytes.
func (t *Tensor) byteSize() (uint64, error) {
	if _, ok := numberByDType[t.DType]; !ok || len(t.Shape) < 1 || len(t.Shape) > maxDims {
		return 0, fmt.Errorf("tensor %q: %v of %s, want 1 to %d dimensions of %s", t.Name, t.Shape,
			t.DType, maxDims, readableTypes)
	}
	values, bytes := t.DType.Block()
	if width := t.Shape[len(t.Shape)-1]; width%values != 0 {
		return 0, fmt.Errorf("tensor %q: rows have %d values, want a multiple of %d for %s", t.Name,
			width, values, t.DType)
	}
	n := uint64(1)
	for _, d := range t.Shape {
		n *= uint64(d)
	}
	return n / uint64(values) * uint64(bytes), nil
}

// countingWriter counts the bytes written.
type countingWriter struct {
	w       io.Writer
	written uint64
}

// Write writes p and counts what was written.
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.written += uint64(n)
	return n, err
}

// encodeValues writes values to dst in a type: F32, F16 or a block format.
func encodeValues(dtype weights.DType, dst []byte, values []float32) {
	switch dtype {
	case weights.F32:
		for i, v := range values {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case weights.F16:
		for i, v := range values {
			binary.LittleEndian.PutUint16(dst[2*i:], float16.Round(v))
		}
	default:
		q, _ := quant.Parse(string(dtype))
		quant.Encode(q, dst, values)
	}
}
