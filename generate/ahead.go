package generate

import (
	"unmask/model"
	"unmask/samplers"
)

// lookAhead implements View.Ahead: one pass over copies of the visited member, each with a
// candidate's tokens in place.
func (p *Pool) lookAhead(candidates []samplers.Opening) (entropy []float64, masked []int,
	err error) {
	m, b, length := p.visited, &p.ahead, len(p.visited.Tokens)
	*b = model.Batch{Size: len(candidates), Length: length, Tokens: b.Tokens[:0], Time: b.Time[:0],
		Steps: b.Steps[:0]}
	p.pass.owners = p.pass.owners[:0]
	var rows []int32
	masked = make([]int, len(candidates))
	for i, c := range candidates {
		p.pass.owners = append(p.pass.owners, m)
		b.Tokens = append(b.Tokens, m.Tokens...)
		tokens := b.Tokens[i*length:]
		for j, at := range c.Positions {
			tokens[at] = c.Tokens[j]
		}
		for at, t := range tokens {
			if t == p.spec.Mask && at < m.step.seen {
				rows = append(rows, int32(i*length+at))
				masked[i]++
			}
		}
		b.Time = append(b.Time, float64(m.left-len(c.Positions))/float64(length))
		b.Steps = append(b.Steps, model.Progress{N: m.N + 1, Of: m.steps})
		if m.Condition != nil {
			b.Conditions = append(b.Conditions, m.Condition)
		}
	}
	m.step.work.Full += len(candidates)
	m.step.work.Head += len(rows)
	b.Read = rows
	marginals, err := m.step.network.d.Forward(p.ctx, b)
	if err != nil {
		return nil, nil, err
	}
	p.setMarginals(b, marginals)
	each := make([]float64, len(rows))
	if err := p.plain(m).Stats(rows, &model.Stats{Entropy: each}); err != nil {
		return nil, nil, err
	}
	entropy = make([]float64, len(candidates))
	for i, row := range rows {
		entropy[int(row)/length] += each[i]
	}
	return entropy, masked, nil
}
