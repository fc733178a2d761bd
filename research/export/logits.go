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
// else the input file may contain. The tensors of quantities follow.
func WriteLogits(ctx context.Context, m *unmask.Model, tokensFile, out string,
	quantities ...Quantity) error {
	in, err := openInput(tokensFile)
	if err != nil {
		return err
	}
	defer in.Close()
	m, whole, err := withBlocks(m, in)
	if err != nil {
		return err
	}
	tokens, shape, err := in.readSequences("tokens", m.Spec())
	if err != nil {
		return err
	}
	conditions, err := readConditions(in, m.Spec(), shape[0])
	if err != nil {
		return err
	}
	batch := &model.Batch{Size: shape[0], Length: shape[1], Tokens: tokens, Conditions: conditions}
	observed, err := observeQuantities(ctx, m, batch, quantities)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	n, err := countLogits(ctx, m, batch)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	e := &exporter{ctx, m, in, n}
	var streams []weights.Stream
	if conditions != nil {
		streams, err = e.conditionalStreams(batch)
	} else {
		streams, err = e.plainStreams(whole, batch)
	}
	if err != nil {
		return err
	}
	for _, t := range observed {
		streams = append(streams, tensorStream(t))
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

// plainStreams returns the logits of a batch without conditions, and those of the other cases that
// the file has. whole is the model without blocks, or nil.
func (e *exporter) plainStreams(whole *unmask.Model, b *model.Batch) ([]weights.Stream, error) {
	streams := []weights.Stream{e.fullStream("logits", e.m, b.Tokens, b.Length, 0)}
	if e.m.Spec().Shifted {
		streams = append(streams, e.fullStream("shifted_logits", e.m, b.Tokens, b.Length, b.Length))
	}
	if whole != nil {
		streams = append(streams, e.fullStream("bidirectional_logits", whole, b.Tokens, b.Length, 0))
	}
	if e.in.hasTensor("short_tokens") {
		short, shape, err := e.in.readSequences("short_tokens", e.m.Spec())
		if err != nil {
			return nil, err
		}
		streams = append(streams, e.fullStream("short_logits", e.m, short, shape[1], 0))
	}
	if e.in.hasTensor("partial_rows") {
		partial, err := e.partialStreams(b)
		if err != nil {
			return nil, err
		}
		streams = append(streams, partial...)
	}
	return streams, nil
}

// tensorStream returns a tensor in memory as one that is streamed.
func tensorStream(t weights.Tensor) weights.Stream {
	return weights.Stream{
		Name:  t.Name,
		DType: t.DType,
		Shape: t.Shape,
		Open:  opener(bytes.NewReader(t.Data)),
	}
}

// opener returns the function that opens r, once.
func opener(r io.Reader) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(r), nil }
}

// countLogits returns the number of logits of a position, found from a batch's first sequence.
func countLogits(ctx context.Context, m *unmask.Model, b *model.Batch) (n int, err error) {
	if len(b.Tokens) == 0 {
		return 0, fmt.Errorf("tokens is empty")
	}
	first := &model.Batch{
		Size:       1,
		Length:     b.Length,
		Tokens:     b.Tokens[:b.Length],
		Time:       []float64{1},
		Conditions: b.Conditions[:min(1, len(b.Conditions))],
	}
	got, err := m.Forward(ctx, first)
	if err != nil {
		return 0, err
	}
	err = rawMarginals(got).Visit([]int32{0}, func(_ int, logits []float32) { n = len(logits) })
	return n, err
}

// chunkRows is the number of rows of logits in memory at once.
const chunkRows = 64

// pass computes marginals, of which rows are written.
type pass struct {
	rows []int32
	run  func() (model.Marginals, error)
}

// fullStream returns the logits of sequences of tokens, a pass for each. shift is that of
// rowStream.
func (e *exporter) fullStream(name string, m *unmask.Model, tokens []int32, length,
	shift int) weights.Stream {
	var passes []pass
	for sequence := range slices.Chunk(tokens, length) {
		run := func() (model.Marginals, error) { return m.Forward(e.ctx, singleBatch(m, sequence)) }
		passes = append(passes, pass{nn.RowRange(0, length), run})
	}
	return e.rowStream(name, []int{len(passes), length}, shift, passes...)
}

// rowStream returns the logits of passes as a tensor [shape, columns]. With shift, which is the
// length of sequences, rows are those of the positions that they predict.
func (e *exporter) rowStream(name string, shape []int, shift int, passes ...pass) weights.Stream {
	r := &logitsReader{
		columns: e.columns,
		shift:   shift,
		passes:  slices.DeleteFunc(passes, func(p pass) bool { return len(p.rows) == 0 }),
	}
	return weights.Stream{
		Name:  name,
		DType: weights.F32,
		Shape: append(shape, e.columns),
		Open:  opener(&partReader{next: r.next}),
	}
}

// logitsReader returns the logits of passes, a few rows at a time. Nothing is computed before it is
// read, so memory does not grow with the number of sequences.
type logitsReader struct {
	passes  []pass // still to be read
	columns int
	shift   int // see rowStream

	// current are the marginals of the first pass, nil before it was run.
	current model.Marginals

	chunk []float32 // [chunkRows, columns]
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
	readRows := rows
	if r.shift > 0 {
		readRows = predictingRows(rows, r.shift)
	}
	err = rawMarginals(r.current).Visit(readRows, func(i int, logits []float32) {
		copy(r.chunk[i*r.columns:], logits)
	})
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		for token, l := range r.chunk[i*r.columns:][:r.columns] {
			if l-l != 0 { // true for NaN and infinities
				return nil, fmt.Errorf("position %d: the logit of token %d is %v, want finite ones", row,
					token, l)
			}
		}
	}
	p.rows = p.rows[len(rows):]
	if len(p.rows) == 0 {
		r.passes = r.passes[1:]
		r.current = nil
	}
	return r.chunk[:len(rows)*r.columns], nil
}

// partReader is an io.Reader of the bytes of numbers, which next returns part by part.
type partReader struct {
	next   func() ([]float32, error)
	unread []byte
}

// Read implements io.Reader.
func (r *partReader) Read(p []byte) (int, error) {
	if len(r.unread) == 0 {
		part, err := r.next()
		if err != nil {
			return 0, err
		}
		r.unread = float32Bytes(part)
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

// float32Bytes returns the bytes of values, little-endian as in the file.
func float32Bytes(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// singleBatch returns a batch of one sequence, with the time of models that need it: the share of
// masks.
func singleBatch(m *unmask.Model, tokens []int32) *model.Batch {
	masked := m.Spec().CountMasked(tokens)
	return &model.Batch{
		Size:   1,
		Length: len(tokens),
		Tokens: tokens,
		Time:   []float64{float64(masked) / float64(len(tokens))},
	}
}

// WriteTextLogits writes the raw logits of texts of any lengths, given as tokens with those that
// stand around them. Of text i, counted from 0, there are i.tokens I64 [D] and i.logits F32 [D,V];
// of networks whose logits predict the next position i.shifted_logits too, as in WriteLogits; and
// tensors of quantities such as i.hidden.0, without the dimension B. The metadata has the names of
// texts.
func WriteTextLogits(ctx context.Context, m *unmask.Model, names []string, texts [][]int32,
	out string, quantities ...Quantity) error {
	if m.Spec().Fixed {
		return fmt.Errorf("the model has sequences of %d positions only, want tokens of that many",
			m.Spec().Length())
	}
	var streams []weights.Stream
	metadata := map[string]string{}
	observedBytes := int64(0)
	columns := 0
	for i, tokens := range texts {
		length := len(tokens)
		b := &model.Batch{Size: 1, Length: length, Tokens: tokens}
		if i == 0 {
			var err error
			if columns, err = countLogits(ctx, m, b); err != nil {
				return err
			}
		}
		number := strconv.Itoa(i)
		add := func(s weights.Stream, shape []int) {
			s.Name = number + "." + s.Name
			s.Shape = shape
			streams = append(streams, s)
		}
		ids := newInt64Tensor("tokens", tokens, length)
		add(tensorStream(ids), ids.Shape)
		e := &exporter{ctx: ctx, m: m, columns: columns}
		add(e.fullStream("logits", m, tokens, length, 0), []int{length, columns})
		if m.Spec().Shifted {
			add(e.fullStream("shifted_logits", m, tokens, length, length), []int{length, columns})
		}
		observed, err := observeQuantities(ctx, m, b, quantities)
		for _, t := range observed {
			observedBytes += int64(len(t.Data))
			add(tensorStream(t), t.Shape[1:])
		}
		if err == nil && observedBytes > maxObserved {
			err = fmt.Errorf("--with has more than %.1f GB, want at most that: give fewer texts",
				float64(maxObserved)/1e9)
		}
		if err != nil {
			return fmt.Errorf("text %d (%.40s): %w", i+1, names[i], err)
		}
		metadata[number] = names[i]
	}
	return weights.WriteFileStreams(out, streams, metadata)
}
