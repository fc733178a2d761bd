package cli

import (
	"context"
	"fmt"
	"io"
	"unsafe"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/backend"
	"unmask/model"
	"unmask/weights"
)

func newLogits() *cobra.Command {
	var d deviceFlags
	var tokens, out string
	cmd := &cobra.Command{
		Use:   "logits",
		Short: "Write a model's raw logits for given tokens",
		Long: `Write a model's raw logits for given tokens, of an exact model the log-probabilities.

The tokens file is safetensors with tokens I64 [B,D]; the output has logits F32 [B,D,V]. With
partial_rows I64 [R] and partial_tokens I64 [1,D] it also has partial_logits F32 [1,R,V]: a full
pass over the first sequence of tokens, then a partial pass at those rows with partial_tokens
in place.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			return writeLogits(ctx, &d, tokens, out)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&tokens, "tokens", "", "safetensors `FILE` with tokens I64 [B,D]")
	cmd.Flags().StringVar(&out, "out", "", "safetensors `FILE` to write")
	cmd.MarkFlagRequired("tokens")
	cmd.MarkFlagRequired("out")
	return cmd
}

func writeLogits(ctx context.Context, d *deviceFlags, tokensFile, out string) error {
	if err := checkFile("--out", out); err != nil {
		return err
	}
	set, err := weights.Open(tokensFile)
	if err != nil {
		return err
	}
	defer set.Close()
	tokens, shape, err := ints(set, tokensFile, "tokens", 2)
	if err != nil {
		return err
	}
	m, err := d.load(ctx)
	if err != nil {
		return err
	}
	length := shape[1]
	if spec := m.Spec(); length < 1 || length > spec.Length() || spec.Fixed && length != spec.Length() {
		return fmt.Errorf("%s: tokens has shape %v, the model allows %d positions", tokensFile, shape, spec.Length())
	}
	if err := checkTokens(tokensFile, "tokens", tokens, length, m.Spec()); err != nil {
		return err
	}
	columns, err := columns(ctx, m, tokens, length)
	if err != nil {
		return fmt.Errorf("%s: %w", tokensFile, err)
	}
	streams := []weights.Stream{{Name: "logits", DType: weights.F32, Shape: []int{shape[0], length, columns},
		Open: opener(&logitsReader{ctx: ctx, m: m, tokens: tokens, length: length, columns: columns})}}
	if _, ok := set.Get("partial_rows"); ok {
		partial, err := partialReader(ctx, m, set, tokensFile, tokens, length, columns)
		if err != nil {
			return err
		}
		streams = append(streams, weights.Stream{Name: "partial_logits", DType: weights.F32,
			Shape: []int{1, len(partial.rows), columns}, Open: opener(partial)})
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

// ints reads an integer tensor with so many dimensions.
func ints(set *weights.Set, file, name string, dims int) ([]int32, []int, error) {
	t, ok := set.Get(name)
	if !ok {
		return nil, nil, fmt.Errorf("%s: tensor %q is missing", file, name)
	}
	if t.DType != weights.I64 || len(t.Shape) != dims {
		return nil, nil, fmt.Errorf("%s: tensor %q is %s %v, wanted is I64 with %d dimensions", file, name, t.DType, t.Shape, dims)
	}
	long, err := t.Int64s()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	short := make([]int32, len(long))
	for i, v := range long {
		if short[i] = int32(v); int64(short[i]) != v {
			return nil, nil, fmt.Errorf("%s: tensor %q, element %d is %d, which is no token", file, name, i, v)
		}
	}
	return short, t.Shape, nil
}

// checkTokens wants tokens that the model knows, in sequences of so many.
func checkTokens(file, name string, tokens []int32, length int, spec model.Spec) error {
	for i, t := range tokens {
		if t != spec.Mask && (t < 0 || int(t) >= spec.Outcomes) {
			return fmt.Errorf("%s: tensor %q: token %d of sequence %d is %d, allowed are 0..%d and the mask %d",
				file, name, i%length, i/length, t, spec.Outcomes-1, spec.Mask)
		}
	}
	return nil
}

// columns is how many logits the model has a position, found by its first.
func columns(ctx context.Context, m *unmask.Model, tokens []int32, length int) (int, error) {
	if len(tokens) == 0 {
		return 0, fmt.Errorf("tokens is empty")
	}
	got, err := m.Forward(ctx, &model.Batch{Size: 1, Length: length, Tokens: tokens[:length], Time: []float64{1}})
	if err != nil {
		return 0, err
	}
	n := 0
	err = got.Visit([]int32{0}, func(_ int, logits []float32) { n = len(logits) })
	return n, err
}

// chunkRows are the rows of logits held in memory at once.
const chunkRows = 64

// logitsReader is the bytes of the logits of sequences of tokens, a pass for each.
type logitsReader struct {
	ctx     context.Context
	m       *unmask.Model
	tokens  []int32 // [sequences, length]
	length  int
	columns int

	pass    func() (model.Marginals, error) // instead of a full pass over each sequence
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
			r.current, err = r.m.Forward(r.ctx, &model.Batch{Size: 1, Length: r.length, Tokens: r.tokens[:r.length], Time: maskedShare(r.tokens[:r.length], r.m)})
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
	err := r.current.Visit(r.rows[:n], func(i int, logits []float32) {
		copy(r.chunk[i*r.columns:], logits)
	})
	if err != nil {
		return err
	}
	for i, row := range r.rows[:n] {
		for x, l := range r.chunk[i*r.columns:][:r.columns] {
			if l-l != 0 { // NaN or infinite
				return fmt.Errorf("position %d: the logit of token %d is %v, wanted are finite ones", row, x, l)
			}
		}
	}
	r.rows = r.rows[n:]
	part := r.chunk[:n*r.columns]
	r.left = unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), 4*len(part)) // little-endian, as the file
	return nil
}

// maskedShare is the share of masked positions, for models that want it.
func maskedShare(tokens []int32, m *unmask.Model) []float64 {
	return []float64{float64(holes(tokens, m.Spec().Mask)) / float64(len(tokens))}
}

// partialReader is a full pass over the first sequence, then a partial one.
func partialReader(ctx context.Context, m *unmask.Model, set *weights.Set, file string, tokens []int32, length, columns int) (*logitsReader, error) {
	rows, _, err := ints(set, file, "partial_rows", 1)
	if err != nil {
		return nil, err
	}
	seen := make([]bool, length)
	for i, row := range rows {
		if row < 0 || int(row) >= length || seen[row] {
			return nil, fmt.Errorf("%s: partial_rows, element %d is %d, allowed are 0..%d, each once", file, i, row, length-1)
		}
		seen[row] = true
	}
	after, shape, err := ints(set, file, "partial_tokens", 2)
	if err != nil {
		return nil, err
	}
	if shape[0] != 1 || shape[1] != length {
		return nil, fmt.Errorf("%s: partial_tokens has shape %v, wanted is [1 %d]", file, shape, length)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: partial_rows is empty", file)
	}
	if err := checkTokens(file, "partial_tokens", after, length, m.Spec()); err != nil {
		return nil, err
	}
	refiner, ok := m.Denoiser.(model.Refiner)
	if !ok {
		return nil, fmt.Errorf("%s: partial_rows, but the model has no partial passes", file)
	}
	return &logitsReader{ctx: ctx, m: m, length: length, columns: columns, rows: rows, pass: func() (_ model.Marginals, err error) {
		defer backend.Recover(&err)
		b := &model.Batch{Size: 1, Length: length, Tokens: tokens[:length], Time: maskedShare(tokens[:length], m), Cache: refiner.NewCache(1, length)}
		if _, err := refiner.Forward(ctx, b); err != nil {
			return nil, err
		}
		b.Tokens = after
		return refiner.Refine(ctx, b, rows)
	}}, nil
}
