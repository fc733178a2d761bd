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
	// Write writes all bytes of the tensor.
	Write func(w io.Writer) error
}

// numbers maps types to their numbers in ggml.
var numbers = func() map[weights.DType]uint32 {
	m := map[weights.DType]uint32{}
	for n, t := range types {
		m[t] = n
	}
	return m
}()

// Write writes a file of version 3 with the default alignment, with keys and tensors in the given
// order.
func Write(w io.Writer, keys []Key, tensors []Tensor) error {
	le := binary.LittleEndian
	head := le.AppendUint32([]byte("GGUF"), 3)
	head = le.AppendUint64(le.AppendUint64(head, uint64(len(tensors))), uint64(len(keys)))
	for _, k := range keys {
		head = appendKey(head, k)
	}
	at := uint64(0)
	sizes := make([]uint64, len(tensors))
	for i, t := range tensors {
		var err error
		if sizes[i], err = t.size(); err != nil {
			return err
		}
		head = le.AppendUint32(appendText(head, t.Name), uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			head = le.AppendUint64(head, uint64(d))
		}
		head = le.AppendUint64(le.AppendUint32(head, numbers[t.DType]), at)
		at += (sizes[i] + alignment - 1) / alignment * alignment
	}
	head = append(head, make([]byte, -len(head)&(alignment-1))...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for i, t := range tensors {
		c := &counter{w: w}
		if err := t.Write(c); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if c.n != sizes[i] {
			return fmt.Errorf("tensor %q: %d bytes were written, want %d", t.Name, c.n, sizes[i])
		}
		if _, err := w.Write(make([]byte, -int(c.n)&(alignment-1))); err != nil {
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
	list := func(b []byte, of kind, n int) []byte {
		return le.AppendUint64(le.AppendUint32(le.AppendUint32(b, uint32(array)), uint32(of)), uint64(n))
	}
	b = appendText(b, k.Name)
	switch v := k.Value.(type) {
	case bool:
		b = append(le.AppendUint32(b, uint32(boolean)), 0)
		if v {
			b[len(b)-1] = 1
		}
	case uint32:
		b = le.AppendUint32(le.AppendUint32(b, uint32(u32)), v)
	case float32:
		b = le.AppendUint32(le.AppendUint32(b, uint32(f32)), math.Float32bits(v))
	case string:
		b = appendText(le.AppendUint32(b, uint32(text)), v)
	case []string:
		b = list(b, text, len(v))
		for _, s := range v {
			b = appendText(b, s)
		}
	case []int32:
		b = list(b, i32, len(v))
		for _, n := range v {
			b = le.AppendUint32(b, uint32(n))
		}
	default:
		panic(fmt.Sprintf("gguf: Write: key %s is a %T", k.Name, k.Value))
	}
	return b
}

// size returns the tensor's size in bytes.
func (t *Tensor) size() (uint64, error) {
	if _, ok := numbers[t.DType]; !ok || len(t.Shape) < 1 || len(t.Shape) > maxDims {
		return 0, fmt.Errorf("tensor %q: %v of %s, want 1 to %d dimensions of %s", t.Name, t.Shape,
			t.DType, maxDims, known)
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

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n uint64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += uint64(n)
	return n, err
}

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
