// Package export writes what models compute as safetensors for other programs: the logits of
// tokens, the codes of pictures, the pictures of codes.
package export

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unsafe"

	"unmask"
	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// WriteLogits writes a model's raw logits F32 [B,D,V] for the tokens I64 [B,D] of one safetensors
// file to another; for an exact model they are log-probabilities. unmask logits --help lists what
// else the input file may contain. The tensors named in `with` follow.
func WriteLogits(ctx context.Context, m *unmask.Model, tokensFile, out string,
	with ...Quantity) error {
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
	e := &exporter{ctx, m, in, n}
	var streams []weights.Stream
	if conditions != nil {
		streams, err = e.conditional(batch)
	} else {
		streams, err = e.plain(whole, batch)
	}
	if err != nil {
		return err
	}
	for _, t := range seen {
		streams = append(streams, streamOf(t))
	}
	if err := weights.WriteFileStreams(out, streams, nil); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	return nil
}

// exporter makes the streams of the cases in a file, of logits [columns] for each position.
type exporter struct {
	ctx     context.Context
	m       *unmask.Model
	in      input
	columns int
}

// plain returns the logits of a batch without conditions, and those of the other cases that the
// file has. whole is the model without blocks, or nil.
func (e *exporter) plain(whole *unmask.Model, b *model.Batch) ([]weights.Stream, error) {
	streams := []weights.Stream{e.full("logits", e.m, b.Tokens, b.Length, 0)}
	if e.m.Spec().Shifted {
		streams = append(streams, e.full("shifted_logits", e.m, b.Tokens, b.Length, b.Length))
	}
	if whole != nil {
		streams = append(streams, e.full("bidirectional_logits", whole, b.Tokens, b.Length, 0))
	}
	if e.in.has("short_tokens") {
		short, shape, err := e.in.sequences("short_tokens", e.m.Spec())
		if err != nil {
			return nil, err
		}
		streams = append(streams, e.full("short_logits", e.m, short, shape[1], 0))
	}
	if e.in.has("partial_rows") {
		partial, err := e.partial(b)
		if err != nil {
			return nil, err
		}
		streams = append(streams, partial...)
	}
	return streams, nil
}

func streamOf(t weights.Tensor) weights.Stream {
	return weights.Stream{Name: t.Name, DType: t.DType, Shape: t.Shape,
		Open: opener(bytes.NewReader(t.Data))}
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

// pass computes marginals, of which rows are written.
type pass struct {
	rows []int32
	run  func() (model.Marginals, error)
}

// full returns the logits of sequences of tokens, a pass for each.
func (e *exporter) full(name string, m *unmask.Model, tokens []int32, length,
	shift int) weights.Stream {
	var passes []pass
	for one := range slices.Chunk(tokens, length) {
		passes = append(passes, pass{nn.RowRange(0, length),
			func() (model.Marginals, error) { return m.Forward(e.ctx, alone(m, one)) }})
	}
	return e.stream(name, []int{len(passes), length}, shift, passes...)
}

// stream returns the logits of passes as a tensor [shape, columns]. With shift, which is the length
// of sequences, rows are those of the positions that they predict.
func (e *exporter) stream(name string, shape []int, shift int, passes ...pass) weights.Stream {
	r := &logitsReader{columns: e.columns, shift: shift,
		passes: slices.DeleteFunc(passes, func(p pass) bool { return len(p.rows) == 0 })}
	return weights.Stream{Name: name, DType: weights.F32, Shape: append(shape, e.columns),
		Open: opener(&parts{next: r.next})}
}

// logitsReader returns the logits of passes, a few rows at a time.
type logitsReader struct {
	passes  []pass // still to be read
	columns int
	shift   int             // see stream
	current model.Marginals // of the first pass; nil before it
	chunk   []float32
}

// next computes the next rows.
func (r *logitsReader) next() (_ []float32, err error) {
	defer backend.Recover(&err)
	if len(r.passes) == 0 {
		return nil, io.EOF
	}
	p := &r.passes[0]
	if r.current == nil {
		if r.current, err = p.run(); err != nil {
			return nil, err
		}
	}
	if r.chunk == nil {
		r.chunk = make([]float32, chunkRows*r.columns)
	}
	rows := p.rows[:min(chunkRows, len(p.rows))]
	from := rows
	if r.shift > 0 {
		from = before(rows, r.shift)
	}
	if err := raw(r.current).Visit(from, func(i int, logits []float32) {
		copy(r.chunk[i*r.columns:], logits)
	}); err != nil {
		return nil, err
	}
	for i, row := range rows {
		for x, l := range r.chunk[i*r.columns:][:r.columns] {
			if l-l != 0 { // true for NaN and infinities
				return nil, fmt.Errorf("position %d: the logit of token %d is %v, want finite ones", row, x, l)
			}
		}
	}
	if p.rows = p.rows[len(rows):]; len(p.rows) == 0 {
		r.passes, r.current = r.passes[1:], nil
	}
	return r.chunk[:len(rows)*r.columns], nil
}

// parts is an io.Reader of the bytes of numbers, which next returns part by part.
type parts struct {
	next func() ([]float32, error)
	left []byte
}

// Read implements io.Reader.
func (r *parts) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		part, err := r.next()
		if err != nil {
			return 0, err
		}
		r.left = bytesOf(part)
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// bytesOf returns the bytes of values, little-endian as in the file.
func bytesOf(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// alone returns a batch of one sequence, with the time of models that need it: the share of masks.
func alone(m *unmask.Model, tokens []int32) *model.Batch {
	return &model.Batch{Size: 1, Length: len(tokens), Tokens: tokens,
		Time: []float64{float64(m.Spec().CountMasked(tokens)) / float64(len(tokens))}}
}

// WriteTextLogits writes the raw logits of texts of any lengths, given as tokens with those that
// stand around them. Of text i, counted from 0, there are i.tokens I64 [D] and i.logits F32 [D,V];
// of networks whose logits predict the next position i.shifted_logits too, as in Logits; and
// tensors of `with` such as i.hidden.0, without the dimension B. The metadata has the names of
// texts.
func WriteTextLogits(ctx context.Context, m *unmask.Model, names []string, texts [][]int32,
	out string,
	with ...Quantity) error {
	if m.Spec().Fixed {
		return fmt.Errorf("the model has sequences of %d positions only, want tokens of that many",
			m.Spec().Length())
	}
	var streams []weights.Stream
	metadata, size, n := map[string]string{}, int64(0), 0
	for i, tokens := range texts {
		b := &model.Batch{Size: 1, Length: len(tokens), Tokens: tokens}
		var err error
		if i == 0 {
			n, err = columns(ctx, m, b)
		}
		if err != nil {
			return err
		}
		number := strconv.Itoa(i)
		add := func(s weights.Stream, shape []int) {
			s.Name, s.Shape = number+"."+s.Name, shape
			streams = append(streams, s)
		}
		ids := integers("tokens", tokens, len(tokens))
		add(streamOf(ids), ids.Shape)
		e := &exporter{ctx: ctx, m: m, columns: n}
		add(e.full("logits", m, tokens, len(tokens), 0), []int{len(tokens), n})
		if m.Spec().Shifted {
			add(e.full("shifted_logits", m, tokens, len(tokens), len(tokens)), []int{len(tokens), n})
		}
		seen, err := inside(ctx, m, b, with)
		for _, t := range seen {
			size += int64(len(t.Data))
			add(streamOf(t), t.Shape[1:])
		}
		if err == nil && size > maxInside {
			err = fmt.Errorf("--with has more than %.1f GB, want at most that: give fewer texts",
				float64(maxInside)/1e9)
		}
		if err != nil {
			return fmt.Errorf("text %d (%.40s): %w", i+1, names[i], err)
		}
		metadata[number] = names[i]
	}
	return weights.WriteFileStreams(out, streams, metadata)
}
