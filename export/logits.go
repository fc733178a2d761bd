// Package export writes what models compute as safetensors for other programs: the logits of
// tokens, the codes of pictures, the pictures of codes.
package export

import (
	"bytes"
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
	set, err := weights.Open(tokensFile)
	if err != nil {
		return err
	}
	defer set.Close()
	tokens, shape, err := ints(set, tokensFile, "tokens", 2)
	if err != nil {
		return err
	}
	m, whole, err := withBlocks(m, set, tokensFile)
	if err != nil {
		return err
	}
	length := shape[1]
	if spec := m.Spec(); length < 1 || length > spec.Length() ||
		spec.Fixed && length != spec.Length() {
		return fmt.Errorf("%s: tokens has shape %v, the model allows %d positions", tokensFile, shape,
			spec.Length())
	}
	if err := checkTokens(tokensFile, "tokens", tokens, length, m.Spec()); err != nil {
		return err
	}
	conditions, err := conditionsOf(set, tokensFile, m.Spec(), shape[0])
	if err != nil {
		return err
	}
	batch := &model.Batch{Size: shape[0], Length: length, Tokens: tokens, Conditions: conditions}
	seen, err := inside(ctx, m, batch, with)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	if conditions != nil {
		return writeConditional(ctx, m, set, tokensFile, out, batch, seen)
	}
	columns, err := columns(ctx, m, tokens, length)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	streams := []weights.Stream{{Name: "logits", DType: weights.F32,
		Shape: []int{shape[0], length, columns},
		Open:  opener(&logitsReader{ctx: ctx, m: m, tokens: tokens, length: length, columns: columns})}}
	full := func(name string, m *unmask.Model, tokens []int32, length int, shifted bool) {
		streams = append(streams,
			weights.Stream{Name: name, DType: weights.F32,
				Shape: []int{len(tokens) / length, length, columns},
				Open: opener(&logitsReader{ctx: ctx, m: m, tokens: tokens, length: length, columns: columns,
					shifted: shifted})})
	}
	if m.Spec().Shifted {
		full("shifted_logits", m, tokens, length, true)
	}
	if whole != nil {
		full("bidirectional_logits", whole, tokens, length, false)
	}
	if _, ok := set.Get("short_tokens"); ok {
		short, shape, err := ints(set, tokensFile, "short_tokens", 2)
		if err != nil {
			return err
		}
		if shape[1] < 1 || shape[1] > m.Spec().Length() ||
			m.Spec().Fixed && shape[1] != m.Spec().Length() {
			return fmt.Errorf("%s: short_tokens has shape %v, the model allows %d positions", tokensFile,
				shape, m.Spec().Length())
		}
		if err := checkTokens(tokensFile, "short_tokens", short, shape[1], m.Spec()); err != nil {
			return err
		}
		full("short_logits", m, short, shape[1], false)
	}
	if _, ok := set.Get("partial_rows"); ok {
		partial, err := partialReaders(ctx, m, set, tokensFile, tokens, length, columns)
		if err != nil {
			return err
		}
		for _, p := range partial {
			streams = append(streams, weights.Stream{Name: p.name, DType: weights.F32,
				Shape: []int{1, len(p.rows), columns}, Open: opener(p)})
		}
	}
	for _, t := range seen {
		streams = append(streams, weights.Stream{Name: t.Name, DType: t.DType, Shape: t.Shape,
			Open: opener(bytes.NewReader(t.Data))})
	}
	if err := weights.WriteFileStreams(out, streams, nil); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}

func opener(r io.Reader) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(r), nil }
}

// ints reads an integer tensor with `dims` dimensions.
func ints(set *weights.Set, file, name string, dims int) ([]int32, []int, error) {
	t, ok := set.Get(name)
	if !ok {
		return nil, nil, fmt.Errorf("%s: tensor %q is missing", file, name)
	}
	if t.DType != weights.I64 || len(t.Shape) != dims {
		return nil, nil, fmt.Errorf("%s: tensor %q is %s %v, want I64 with %d dimensions", file, name,
			t.DType, t.Shape, dims)
	}
	long, err := t.Int64s()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	short := make([]int32, len(long))
	for i, v := range long {
		if short[i] = int32(v); int64(short[i]) != v {
			return nil, nil, fmt.Errorf("%s: tensor %q, element %d is %d, which is no token", file, name, i,
				v)
		}
	}
	return short, t.Shape, nil
}

// checkTokens returns an error for unknown tokens, and for anything but whole sequences of
// `length`.
func checkTokens(file, name string, tokens []int32, length int, spec model.Spec) error {
	for i, t := range tokens {
		if t != spec.Mask && (t < 0 || int(t) >= spec.Outcomes) {
			return fmt.Errorf("%s: tensor %q: token %d of sequence %d is %d, want 0 to %d and the mask %d",
				file, name, i%length, i/length, t, spec.Outcomes-1, spec.Mask)
		}
	}
	return nil
}

// columns returns the number of logits of a position, found from the first.
func columns(ctx context.Context, m *unmask.Model, tokens []int32, length int) (int, error) {
	if len(tokens) == 0 {
		return 0, fmt.Errorf("tokens is empty")
	}
	got, err := m.Forward(ctx,
		&model.Batch{Size: 1, Length: length, Tokens: tokens[:length], Time: []float64{1}})
	if err != nil {
		return 0, err
	}
	n := 0
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

	name    string                          // of the tensor of a partial pass
	shifted bool                            // rows are those of the position that they predict
	pass    func() (model.Marginals, error) // replaces a full pass over each sequence
	rows    []int32                         // of that pass
	current model.Marginals
	chunk   []float32
	left    []byte
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
