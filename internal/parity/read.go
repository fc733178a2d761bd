package parity

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// ReadRows checks that rows have the same logits, bit for bit, whether or not other rows are read,
// wherever the sequences are in the cache and, if the model allows different lengths, together with
// shorter sequences: in full passes and in partial ones over the refined positions, on every
// device.
func ReadRows(t *testing.T, pack string, refined []int) {
	p := Open(t, pack)
	tokens, shape := p.Ints("tokens")
	_, wantShape := p.Floats("logits")
	n, columns := shape[1], wantShape[2]
	slices.Sort(refined)
	for _, d := range Devices {
		t.Run(d.Name+"/"+d.Precision.String(), func(t *testing.T) {
			l, err := model.Load(p.Source, model.Options{Backend: d.New(t), Precision: d.Precision})
			require.NoError(t, err)
			m := l.Denoiser.(model.Refiner)
			lengths := []int{n, n, n}
			if l.Spec().Ragged {
				lengths = []int{n, n / 2, n - 3}
			}
			var rows []int32 // rows of a partial pass: of the first and the last sequence
			for _, s := range []int{0, 2} {
				for _, pos := range refined {
					if pos < lengths[s] {
						rows = append(rows, int32(s*n+pos))
					}
				}
			}
			batch := func() *model.Batch {
				b := Batch(slices.Clone(tokens[:3*n]), []int{3, n})
				b.Lengths, b.Places, b.Cache = lengths, []int{3, 0, 1}, m.NewCache(4, n)
				return b
			}
			pass := func(b *model.Batch, rows, read []int32) []float32 {
				b.Read = read
				forward := func(ctx context.Context, b *model.Batch) (model.Marginals, error) {
					return m.Refine(ctx, b, rows)
				}
				if rows == nil {
					forward = m.Forward
				}
				got, err := forward(context.Background(), b)
				require.NoError(t, err)
				return Logits(t, got, read, columns)
			}
			var some []int32 // none in the first sequence
			for pos := range lengths[1] {
				if pos%3 == 1 {
					some = append(some, int32(n+pos))
				}
			}
			some = append(some, int32(2*n), int32(2*n+lengths[2]-1))
			few := rows[len(rows)-1:]

			all, part := batch(), batch()
			want := pass(all, nil, Count(n))
			want = append(want, pass(all, nil, Count(2 * n)[n:n+lengths[1]])...)
			want = append(want, pass(all, nil, Count(3 * n)[2*n:2*n+lengths[2]])...)
			got := pass(part, nil, some)
			for i, row := range some {
				at := int(row)
				if s := at / n; s > 0 {
					at += lengths[0] - n
					if s > 1 {
						at += lengths[1] - n
					}
				}
				require.Equal(t, want[at*columns:][:columns], got[i*columns:][:columns], "row %d", row)
			}
			for _, b := range []*model.Batch{all, part} {
				for _, row := range rows {
					b.Tokens[row] = 7
				}
			}
			want = pass(all, rows, rows)
			got = pass(part, rows, few)
			require.Equal(t, want[(len(rows)-1)*columns:], got, "a partial pass")

			for s, used := range lengths { // and each of them alone
				alone := Batch(slices.Clone(tokens[s*n:][:used]), []int{1, used})
				alone.Cache = m.NewCache(1, used)
				pass(alone, nil, nil)
				var own, wanted []int32
				for i, row := range rows {
					if int(row)/n == s {
						alone.Tokens[row%int32(n)] = 7
						own, wanted = append(own, row%int32(n)), append(wanted, int32(i))
					}
				}
				if own == nil {
					continue
				}
				logits := pass(alone, own, own)
				for i, at := range wanted {
					require.Equal(t, want[int(at)*columns:][:columns], logits[i*columns:][:columns],
						"sequence %d alone", s)
				}
			}
		})
	}
}
