package generate

import (
	"context"

	"unmask/model"
	"unmask/samplers"
)

// lookAhead is View.Ahead: a pass over copies of the sequence that chooses, each with a
// candidate's tokens in place.
func (r *run) lookAhead(ctx context.Context, candidates []samplers.Opening) (entropy []float64, masked []int, err error) {
	s, b, length := r.visited, &r.ahead, r.o.Length
	b.Size, b.Length, b.Tokens, b.Time = len(candidates), length, b.Tokens[:0], b.Time[:0]
	r.owners = r.owners[:0]
	var rows []int32
	masked = make([]int, len(candidates))
	for i, c := range candidates {
		r.owners = append(r.owners, s)
		b.Tokens = append(b.Tokens, s.seq.Tokens...)
		tokens := b.Tokens[i*length:]
		for j, p := range c.Positions {
			tokens[p] = c.Tokens[j]
		}
		for p, t := range tokens {
			if t == r.spec.Mask {
				rows = append(rows, int32(i*length+p))
				masked[i]++
			}
		}
		b.Time = append(b.Time, float64(s.left-len(c.Positions))/float64(length))
	}
	s.work.Full += len(candidates)
	s.work.Head += len(rows)
	b.Read = rows
	m, err := r.d.Forward(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	r.use(m)
	each := make([]float64, len(rows))
	if err := r.last.Stats(rows, &model.Stats{Entropy: each}); err != nil {
		return nil, nil, err
	}
	entropy = make([]float64, len(candidates))
	for i, row := range rows {
		entropy[int(row)/length] += each[i]
	}
	return entropy, masked, nil
}
