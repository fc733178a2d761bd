// Package export writes what models compute as safetensors for other programs: the logits of
// tokens, the codes of pictures, the pictures of codes.
package export

import (
	"bytes"
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
// to another; for an exact model they are log-probabilities. unmask logits --help lists what else
// the input file may contain. The tensors named in `with` follow.
func Logits(ctx context.Context, m *unmask.Model, tokensFile, out string, with ...Inside) error {
	in, err := openInput(tokensFile)
	if err != nil {
		return err
	}
	defer in.Close()
	m, whole, err := withBlocks(m, in)
	if err != nil {
		return err
	}
	tokens, shape, err := in.sequences("tokens", m.Spec())
	if err != nil {
		return err
	}
	conditions, err := conditionsOf(in, m.Spec(), shape[0])
	if err != nil {
		return err
	}
	batch := &model.Batch{Size: shape[0], Length: shape[1], Tokens: tokens, Conditions: conditions}
	seen, err := inside(ctx, m, batch, with)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	n, err := columns(ctx, m, batch)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	var streams []weights.Stream
	if conditions != nil {
		streams, err = conditionalStreams(ctx, m, in, batch, n)
	} else {
		streams, err = logitStreams(ctx, m, whole, in, batch, n)
	}
	if err != nil {
		return err
	}
	for _, t := range seen {
		streams = append(streams, weights.Stream{Name: t.Name, DType: t.DType, Shape: t.Shape,
			Open: opener(bytes.NewReader(t.Data))})
	}
	if err := weights.WriteFileStreams(out, streams, nil); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	return nil
}

// logitStreams returns the logits of a batch without conditions, and those of the other cases that
// the file has, n for each position. whole is the model without blocks, or nil.
func logitStreams(ctx context.Context, m, whole *unmask.Model, in input, b *model.Batch,
	n int) ([]weights.Stream, error) {
	full := func(m *unmask.Model, tokens []int32, length int) *logitsReader {
		return &logitsReader{ctx: ctx, m: m, tokens: tokens, length: length, columns: n}
	}
	streams := []weights.Stream{full(m, b.Tokens, b.Length).stream("logits")}
	if m.Spec().Shifted {
		r := full(m, b.Tokens, b.Length)
		r.shifted = true
		streams = append(streams, r.stream("shifted_logits"))
	}
	if whole != nil {
		streams = append(streams, full(whole, b.Tokens, b.Length).stream("bidirectional_logits"))
	}
	if in.has("short_tokens") {
		short, shape, err := in.sequences("short_tokens", m.Spec())
		if err != nil {
			return nil, err
		}
		streams = append(streams, full(m, short, shape[1]).stream("short_logits"))
	}
	if in.has("partial_rows") {
		partial, err := partialStreams(ctx, m, in, b, n)
		if err != nil {
			return nil, err
		}
		streams = append(streams, partial...)
	}
	return streams, nil
}

func opener(r io.Reader) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(r), nil }
}

// columns returns the number of logits of a position, found from a batch's first sequence.
func columns(ctx context.Context, m *unmask.Model, b *model.Batch) (n int, err error) {
	if len(b.Tokens) == 0 {
		return 0, fmt.Errorf("tokens is empty")
	}
	first := &model.Batch{Size: 1, Length: b.Length, Tokens: b.Tokens[:b.Length], Time: []float64{1},
		Conditions: b.Conditions[:min(1, len(b.Conditions))]}
	got, err := m.Forward(ctx, first)
	if err != nil {
		return 0, err
	}
	err = raw(got).Visit([]int32{0}, func(_ int, logits []float32) { n = len(logits) })
	return n, err
}

// chunkRows is the number of rows of logits in memory at once.
const chunkRows = 64

// logitsReader reads the bytes of the logits of sequences of tokens, one pass for each sequence.
type logitsReader struct {
	ctx     context.Context
	m       *unmask.Model
	tokens  []int32 // [sequences, length]
	length  int
	columns int

	shifted bool                            // rows are those of the position that they predict
	pass    func() (model.Marginals, error) // replaces a full pass over each sequence
	rows    []int32                         // of that pass
	current model.Marginals
	chunk   []float32
	left    []byte
}

// stream returns the tensor whose bytes r reads: [sequences, length, columns], or
// [1, rows, columns] of one pass.
func (r *logitsReader) stream(name string) weights.Stream {
	shape := []int{len(r.tokens) / r.length, r.length, r.columns}
	if r.pass != nil {
		shape = []int{1, len(r.rows), r.columns}
	}
	return weights.Stream{Name: name, DType: weights.F32, Shape: shape, Open: opener(r)}
}

func (r *logitsReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// next computes the next rows.
func (r *logitsReader) next() error {
	if len(r.rows) == 0 {
		if r.pass != nil || len(r.tokens) == 0 {
			return io.EOF
		}
		for i := range r.length {
			r.rows = append(r.rows, int32(i))
		}
		r.current = nil
	}
	if r.current == nil {
		var err error
		if r.pass != nil {
			r.current, err = r.pass()
		} else {
			r.current, err = r.m.Forward(r.ctx,
				&model.Batch{Size: 1, Length: r.length, Tokens: r.tokens[:r.length],
					Time: maskedShare(r.tokens[:r.length], r.m)})
			r.tokens = r.tokens[r.length:]
		}
		if err != nil {
			return err
		}
	}
	n := min(chunkRows, len(r.rows))
	if r.chunk == nil {
		r.chunk = make([]float32, chunkRows*r.columns)
	}
	rows := r.rows[:n]
	if r.shifted {
		rows = before(rows, r.length)
	}
	err := raw(r.current).Visit(rows, func(i int, logits []float32) {
		copy(r.chunk[i*r.columns:], logits)
	})
	if err != nil {
		return err
	}
	for i, row := range r.rows[:n] {
		for x, l := range r.chunk[i*r.columns:][:r.columns] {
			if l-l != 0 { // true for NaN and infinities
				return fmt.Errorf("position %d: the logit of token %d is %v, want finite ones", row, x, l)
			}
		}
	}
	r.rows = r.rows[n:]
	part := r.chunk[:n*r.columns]
	r.left = unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), 4*len(part)) // little-endian, as the file
	return nil
}

// maskedShare returns the fraction of masked positions, for models that need the time.
func maskedShare(tokens []int32, m *unmask.Model) []float64 {
	return []float64{float64(masked(tokens, m.Spec().Mask)) / float64(len(tokens))}
}

// masked returns the number of masked positions.
func masked(tokens []int32, mask int32) (n int) {
	for _, t := range tokens {
		if t == mask {
			n++
		}
	}
	return n
}
