package likelihood

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"unmask/model"
	"unmask/samplers"
)

// seen is what a pass says of one masked position of the answer.
type seen struct {
	logP     float64 // of the answer's token, nats
	best     int32   // the most probable token
	bestLogP float64
}

// rows is the usual number of rows of a call of the model, see ARCHITECTURE.md.
const rows = 2048

// average computes a plan, adds its draws to the estimate, and returns the square of their error.
func (m *measure) average(ctx context.Context, at part, p plan) (square float64, err error) {
	found := make([][]seen, len(p.masks)) // of the masked positions
	most := cmp.Or(m.Batch, max(1, rows/at.end))
	for first := 0; first < len(found); first += most {
		last := min(first+most, len(found))
		if err := m.pass(ctx, at.end, p.masks[first:last], found[first:last]); err != nil {
			return 0, err
		}
		m.passed(last - first)
	}
	units := make([]float64, (len(p.draws)+p.unit-1)/p.unit)
	for i, d := range p.draws {
		for _, position := range d.scored {
			at, _ := slices.BinarySearch(p.masks[d.mask], position)
			s := found[d.mask][at]
			units[i/p.unit] += m.add(position, s, d.weight)
		}
	}
	return p.square(units), nil
}

// passed counts sequences that went through the model.
func (m *measure) passed(n int) {
	m.done += n
	if m.out.Passes = m.done; m.Progress != nil {
		m.Progress(m.done, m.total)
	}
}

// add adds weight * log p of a position to the estimate, and returns it.
func (m *measure) add(position int, s seen, weight float64) float64 {
	i := position - m.from
	m.out.LogP[i] += weight * s.logP
	m.out.BestLogP[i] += weight * s.bestLogP
	if m.out.Best[i] == m.tokens[position] {
		m.out.Best[i] = s.best
	}
	return weight * s.logP
}

// pass computes sequences whose first `end` tokens are the model's, with some masked.
func (m *measure) pass(ctx context.Context, end int, masks [][]int, found [][]seen) error {
	b := &model.Batch{Size: len(masks), Length: end}
	for i, masked := range masks {
		tokens := slices.Clone(m.tokens[:end])
		for _, p := range masked {
			tokens[p] = m.spec.Mask
			b.ReadRows = append(b.ReadRows, int32(i*end+p))
		}
		b.Tokens = append(b.Tokens, tokens...)
		b.Time = append(b.Time, float64(m.spec.CountMasked(tokens))/float64(end))
		found[i] = make([]seen, len(masked))
	}
	done, err := m.Turn.Acquire(ctx, m.d)
	if err != nil {
		return err
	}
	defer done()
	marginals, err := m.d.Forward(ctx, b)
	if err != nil {
		return err
	}
	all := slices.Concat(found...)
	if err := m.visit(marginals, b.ReadRows, end, all); err != nil {
		return err
	}
	for i := range found {
		found[i], all = all[:len(found[i])], all[len(found[i]):]
	}
	return nil
}

// visit computes what the marginals say of the tokens at rows. All tokens but the mask have their
// probability, as in the original classes, also special ones, which are never drawn.
func (m *measure) visit(marginals model.Marginals, rows []int32, length int, out []seen) error {
	if raw, ok := marginals.(model.Raw); ok && !m.spec.Shifted && m.spec.Causal == model.NotCausal {
		marginals = raw.Raw()
	}
	err := marginals.Visit(rows, func(i int, logits []float32) {
		logits = logits[:m.spec.Outcomes]
		top, sum, s := float32(math.Inf(-1)), 0.0, seen{}
		for t, l := range logits {
			if l > top && int32(t) != m.spec.Mask {
				top, s.best = l, int32(t)
			}
		}
		for t, l := range logits {
			if int32(t) != m.spec.Mask {
				sum += math.Exp(float64(l) - float64(top))
			}
		}
		token := m.tokens[int(rows[i])%length]
		s.bestLogP = -math.Log(sum)
		s.logP = float64(logits[token]) - float64(top) + s.bestLogP
		out[i] = s
	})
	for i, s := range out {
		if err == nil && math.IsNaN(s.logP) {
			err = fmt.Errorf("the logits of position %d are no distribution", int(rows[i])%length)
		}
	}
	return err
}

// LogSum returns the logarithm of the sum of exp of all logits but the mask's, -1 for none. At
// least one of them is finite.
func LogSum(logits []float32, mask int32) float64 {
	top, sum := math.Inf(-1), 0.0
	for t, l := range logits {
		if int32(t) != mask {
			top = max(top, float64(l))
		}
	}
	for t, l := range logits {
		if int32(t) != mask {
			sum += math.Exp(float64(l) - top)
		}
	}
	return top + math.Log(sum)
}

// inOrder adds the chain rule over a part, in the order of a sampler that opens one position a
// step.
func (m *measure) inOrder(ctx context.Context, at part) error {
	tokens, masked := m.tokens, model.Indexes(at.from, at.to)
	v := &samplers.View{Mask: m.spec.Mask, Outcomes: m.spec.Outcomes, Shape: []int{at.end},
		Steps: len(masked), FreeCount: len(masked), Quota: 1, Noise: samplers.ForOrder,
		OpenedLogP: make([]float64, at.end)}
	if s, ok := m.order.(samplers.Stateful); ok {
		v.State = s.NewState(at.end)
	}
	for step := 1; len(masked) > 0; step++ {
		v.Step, v.Masked, v.Tokens = step, masked, slices.Clone(tokens[:at.end])
		v.Rand = samplers.Rand{Seed: m.Seed, Sequence: m.Index, Step: uint32(at.from + step)}
		for _, p := range masked {
			v.Tokens[p] = m.spec.Mask
		}
		v.Reset()
		chosen, s, err := m.step(ctx, v)
		if err != nil {
			return err
		}
		m.add(chosen, s, 1)
		m.passed(1)
		v.OpenedLogP[chosen] = s.logP
		masked = slices.DeleteFunc(masked, func(p int) bool { return p == chosen })
	}
	return nil
}

// step makes a pass and returns the position that the order opens, and what the pass says of it.
func (m *measure) step(ctx context.Context, v *samplers.View) (chosen int, s seen, err error) {
	done, err := m.Turn.Acquire(ctx, m.d)
	if err != nil {
		return 0, s, err
	}
	defer done()
	length, n := len(v.Tokens), len(v.Masked)
	b := &model.Batch{Size: 1, Length: length, Tokens: v.Tokens,
		Time: []float64{float64(m.spec.CountMasked(v.Tokens)) / float64(length)}}
	for _, p := range v.Masked {
		b.ReadRows = append(b.ReadRows, int32(p))
	}
	marginals, err := m.d.Forward(ctx, b)
	if err != nil {
		return 0, s, err
	}
	need := samplers.NeedsFor(m.order, v.Step, v.Steps, 1)
	stats := model.Stats{Beta: need.Beta}
	for _, one := range []struct {
		wanted bool
		to     *[]float64
	}{{need.Beta != 0, &stats.LogMoment}, {need.Entropy, &stats.Entropy}, {need.Top, &stats.P1},
		{need.Top, &stats.P2}, {need.LogSum, &stats.LogSum}} {
		if *one.to = nil; one.wanted {
			*one.to = make([]float64, n)
		}
	}
	if need.Top {
		stats.Arg = make([]int32, n)
	}
	if err := marginals.Stats(b.ReadRows, &stats); err != nil {
		return 0, s, err
	}
	v.LogMoment, v.Entropy, v.LogSum = stats.LogMoment, stats.Entropy, stats.LogSum
	v.P1, v.P2, v.Arg = stats.P1, stats.P2, stats.Arg
	chosen = m.order.Rank(v, 1)[0]
	out := make([]seen, 1)
	err = m.visit(marginals, []int32{int32(chosen)}, length, out)
	return chosen, out[0], err
}

// causal adds the chain rule from left to right, in one pass of a model that runs so.
func (m *measure) causal(ctx context.Context) error {
	feeder, ok := m.d.(model.Feeder)
	if !ok {
		return fmt.Errorf("the model has no causal passes")
	}
	b := &model.Batch{Size: 1, Length: m.to, Lengths: []int{m.to - 1}, Tokens: m.tokens[:m.to]}
	var fed []int32
	for p := range m.to - 1 {
		fed = append(fed, int32(p))
	}
	for p := m.from; p < m.to; p++ {
		b.ReadRows = append(b.ReadRows, int32(p))
	}
	out := make([]seen, len(b.ReadRows))
	done, err := m.Turn.Acquire(ctx, m.d)
	if err != nil {
		return err
	}
	defer done()
	b.Cache = feeder.NewCache(1, m.to)
	marginals, err := feeder.Feed(ctx, b, fed, model.Commit)
	if err == nil {
		err = m.visit(marginals, b.ReadRows, m.to, out)
	}
	if err != nil {
		return err
	}
	for i, s := range out {
		m.add(m.from+i, s, 1)
	}
	m.passed(1)
	return nil
}
