// Package export writes what models compute as safetensors for other programs: the logits of
// tokens and texts, what networks compute inside, and the codes of pictures.
package export

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"unsafe"

	"unmask"
	"unmask/model"
	"unmask/weights"
)

// Logits writes a model's raw logits F32 [B,D,V] for the tokens I64 [B,D] of one safetensors file
// to another; for an exact model they are log-probabilities. The file of a model of classes may
// have labels I64 [B]. Of networks whose logits predict the next position there are shifted_logits
// too: those by the position that they predict. The tensors named in `with` follow.
func Logits(ctx context.Context, m *unmask.Model, tokensFile, out string, with ...Inside) error {
	in, err := openInput(tokensFile)
	if err != nil {
		return err
	}
	defer in.Close()
	tokens, shape, err := in.sequences("tokens", m.Spec())
	if err != nil {
		return err
	}
	b := &model.Batch{Size: shape[0], Length: shape[1], Tokens: tokens}
	if m.Spec().Classes > 0 && in.has("labels") {
		if b.Conditions, err = in.labels(b.Size); err != nil {
			return err
		}
	}
	n, err := columns(ctx, m, b)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	list, _, err := streams(ctx, m, b, n, with)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	if err := weights.WriteFileStreams(out, list, nil); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	return nil
}

// streams returns the logits of a batch, n for each position, and the tensors named in `with`,
// which take `size` bytes of memory.
func streams(ctx context.Context, m *unmask.Model, b *model.Batch, n int,
	with []Inside) (list []weights.Stream, size int64, err error) {
	add := func(name string, shifted bool) {
		r := &logitsReader{ctx: ctx, m: m, b: b, columns: n, shifted: shifted}
		list = append(list, weights.Stream{Name: name, DType: weights.F32,
			Shape: []int{b.Size, b.Length, n}, Open: opener(r)})
	}
	add("logits", false)
	if m.Spec().Shifted {
		add("shifted_logits", true)
	}
	seen, size, err := inside(ctx, m, b, with)
	return append(list, seen...), size, err
}

func opener(r io.Reader) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(r), nil }
}

// sequence returns sequence i of a batch by itself.
func sequence(m *unmask.Model, b *model.Batch, i int) *model.Batch {
	one := &model.Batch{Size: 1, Length: b.Length, Tokens: b.Tokens[i*b.Length:][:b.Length]}
	one.Time = []float64{float64(m.Spec().Masked(one.Tokens)) / float64(b.Length)}
	if b.Conditions != nil {
		one.Conditions = b.Conditions[i : i+1]
	}
	return one
}

// columns returns the number of logits of a position, found from a batch's first sequence.
func columns(ctx context.Context, m *unmask.Model, b *model.Batch) (n int, err error) {
	if len(b.Tokens) == 0 {
		return 0, fmt.Errorf("tokens is empty")
	}
	got, err := m.Forward(ctx, sequence(m, b, 0))
	if err != nil {
		return 0, err
	}
	err = raw(got).Visit([]int32{0}, func(_ int, logits []float32) { n = len(logits) })
	return n, err
}

// raw returns the network's own outputs.
func raw(m model.Marginals) model.Marginals {
	if r, ok := m.(model.Raw); ok {
		return r.Raw()
	}
	return m
}

// chunkRows is the number of rows of logits in memory at once.
const chunkRows = 64

// logitsReader reads the bytes of the logits of a batch, one pass for each sequence.
type logitsReader struct {
	ctx     context.Context
	m       *unmask.Model
	b       *model.Batch
	columns int
	shifted bool // a row is that of the position that it predicts

	next    int // row of the batch
	current model.Marginals
	chunk   []float32
	left    []byte
}

func (r *logitsReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if err := r.compute(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// compute computes the next rows.
func (r *logitsReader) compute() (err error) {
	length := r.b.Length
	first := r.next % length // in its sequence
	switch {
	case r.next == r.b.Size*length:
		return io.EOF
	case first == 0:
		if r.current, err = r.m.Forward(r.ctx, sequence(r.m, r.b, r.next/length)); err != nil {
			return err
		}
	}
	if r.chunk == nil {
		r.chunk = make([]float32, chunkRows*r.columns)
	}
	rows := make([]int32, min(chunkRows, length-first))
	for i := range rows {
		rows[i] = int32(first + i)
		if r.shifted && rows[i] > 0 {
			rows[i]--
		}
	}
	part := r.chunk[:len(rows)*r.columns]
	err = raw(r.current).Visit(rows, func(i int, logits []float32) {
		copy(part[i*r.columns:], logits)
	})
	if err != nil {
		return err
	}
	for i, l := range part {
		if l-l != 0 { // true for NaN and infinities
			return fmt.Errorf("position %d: the logit of token %d is %v, want finite ones",
				first+i/r.columns, i%r.columns, l)
		}
	}
	r.next += len(rows)
	r.left = bytesOf(part)
	return nil
}

// bytesOf returns the bytes of numbers as a file has them: little-endian, as memory has them.
func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
