package parity

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// CheckReadRows checks that rows have the same logits, bit for bit, whether or not other rows are
// read, wherever the sequences are in the cache and, if the model allows different lengths,
// together with shorter sequences: in full passes and in partial ones over the refined positions,
// on every device.
func CheckReadRows(t *testing.T, pack string, refined []int) {
	slices.Sort(refined)
	RunEach(t, []string{pack}, func(t *testing.T, p *Pack, m model.Refiner, _ float64) {
		tokens, shape := p.Ints("tokens")
		_, wantShape := p.Floats("logits")
		r := newReading(m, tokens, shape[1], wantShape[2], refined)
		whole := r.batch()
		part := r.batch()
		r.fullPass(t, whole, part)
		for _, b := range []*model.Batch{whole, part} {
			for _, row := range r.refined {
				b.Tokens[row] = 7
			}
		}
		want := r.pass(t, whole, r.refined, r.refined)
		last := len(r.refined) - 1
		got := r.pass(t, part, r.refined, r.refined[last:])
		require.Equal(t, want[last*r.columns:], got, "a partial pass")
		for s := range r.lengths {
			r.alone(t, s, want)
		}
	})
}

// reading is the three sequences of one test of CheckReadRows.
type reading struct {
	m       model.Refiner
	tokens  []int32 // [3, n]
	n       int     // positions of a sequence in a batch
	columns int
	lengths []int   // of the sequences, at most n
	refined []int32 // rows of the partial pass: of the first and the last sequence
}

// newReading returns the check of three sequences: of their full length, half of it and almost all
// of it, if the model takes sequences of several lengths. Rows are refined in the first and the
// third.
func newReading(m model.Refiner, tokens []int32, n, columns int, refined []int) *reading {
	r := &reading{m: m, tokens: tokens[:3*n], n: n, columns: columns, lengths: []int{n, n, n}}
	if m.Spec().Ragged {
		r.lengths = []int{n, n / 2, n - 3}
	}
	for _, s := range []int{0, 2} {
		for _, pos := range refined {
			if pos < r.lengths[s] {
				r.refined = append(r.refined, int32(s*n+pos))
			}
		}
	}
	return r
}

// batch returns the three sequences, whose places in the cache are in another order.
func (r *reading) batch() *model.Batch {
	b := Batch(slices.Clone(r.tokens), []int{3, r.n})
	b.Lengths = r.lengths
	b.Places = []int{3, 0, 1}
	b.Cache = r.m.NewCache(4, r.n)
	return b
}

// pass returns the logits of the rows in read, after a full pass if rows is nil and a partial one
// over rows otherwise.
func (r *reading) pass(t *testing.T, b *model.Batch, rows, read []int32) []float32 {
	b.ReadRows = read
	forward := func(ctx context.Context, b *model.Batch) (model.Marginals, error) {
		return r.m.Refine(ctx, b, rows)
	}
	if rows == nil {
		forward = r.m.Forward
	}
	got, err := forward(context.Background(), b)
	require.NoError(t, err)
	return Logits(t, got, read, r.columns)
}

// fullPass compares a full pass over part that reads some rows, none in the first sequence, with
// passes over whole that read each sequence in turn.
func (r *reading) fullPass(t *testing.T, whole, part *model.Batch) {
	want := map[int32][]float32{}
	for s, used := range r.lengths {
		rows := Count(s*r.n + used)[s*r.n:]
		logits := r.pass(t, whole, nil, rows)
		for i, row := range rows {
			want[row] = logits[i*r.columns:][:r.columns]
		}
	}
	var partRows []int32
	for pos := range r.lengths[1] {
		if pos%3 == 1 {
			partRows = append(partRows, int32(r.n+pos))
		}
	}
	partRows = append(partRows, int32(2*r.n), int32(2*r.n+r.lengths[2]-1))
	got := r.pass(t, part, nil, partRows)
	for i, row := range partRows {
		require.Equal(t, want[row], got[i*r.columns:][:r.columns], "row %d", row)
	}
}

// alone compares the partial pass over all sequences, whose logits are want [refined, columns],
// with a full and a partial pass over sequence s by itself.
func (r *reading) alone(t *testing.T, s int, want []float32) {
	used := r.lengths[s]
	b := Batch(slices.Clone(r.tokens[s*r.n:][:used]), []int{1, used})
	b.Cache = r.m.NewCache(1, used)
	r.pass(t, b, nil, nil)
	var ownRows []int32 // rows of the sequence by itself
	var indexes []int   // their indices in refined
	for i, row := range r.refined {
		if int(row)/r.n == s {
			ownRows, indexes = append(ownRows, row%int32(r.n)), append(indexes, i)
		}
	}
	if ownRows == nil {
		return
	}
	for _, row := range ownRows {
		b.Tokens[row] = 7
	}
	logits := r.pass(t, b, ownRows, ownRows)
	for i, at := range indexes {
		require.Equal(t, want[at*r.columns:][:r.columns], logits[i*r.columns:][:r.columns],
			"sequence %d alone", s)
	}
}
