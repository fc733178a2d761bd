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

// prediction is what a pass says of one masked position of the answer.
type prediction struct {
	// logP is that of the answer's token, in nats.
	logP float64

	// best is the most probable token, and bestLogP its log p, in nats.
	best     int32
	bestLogP float64
}

// usualRows is the usual number of rows of a call of the model, see ARCHITECTURE.md.
const usualRows = 2048

// averageDraws computes a plan, adds its draws to the estimate, and returns the square of their
// error.
func (m *measure) averageDraws(ctx context.Context, part part, p plan) (square float64, err error) {
	predictions := make([][]prediction, len(p.masks)) // by mask, of its positions
	batchSize := cmp.Or(m.Batch, max(1, usualRows/part.end))
	for first := 0; first < len(predictions); first += batchSize {
		last := min(first+batchSize, len(predictions))
		err := m.computeMasks(ctx, part.end, p.masks[first:last], predictions[first:last])
		if err != nil {
			return 0, err
		}
		m.countPassed(last - first)
	}

	units := make([]float64, (len(p.draws)+p.unit-1)/p.unit)
	for i, d := range p.draws {
		for _, position := range d.scored {
			j, _ := slices.BinarySearch(p.masks[d.mask], position)
			units[i/p.unit] += m.addScore(position, predictions[d.mask][j], d.weight)
		}
	}
	return p.squaredError(units), nil
}

// countPassed counts sequences that went through the model, and reports them.
func (m *measure) countPassed(n int) {
	m.done += n
	m.estimate.Passes = m.done
	if m.Progress != nil {
		m.Progress(m.done, m.total)
	}
}

// addScore adds weight * log p of a position to the estimate, and returns it.
func (m *measure) addScore(position int, p prediction, weight float64) float64 {
	e := m.estimate
	i := position - m.from
	e.LogP[i] += weight * p.logP
	e.BestLogP[i] += weight * p.bestLogP
	if e.Best[i] == m.tokens[position] { // no pass has found another token so far
		e.Best[i] = p.best
	}
	return weight * p.logP
}

// computeMasks computes sequences of the first `end` tokens, in each of which a set of positions is
// masked. It sets predictions, for each mask, to those at its positions.
func (m *measure) computeMasks(ctx context.Context, end int, masks [][]int,
	predictions [][]prediction) error {
	b := &model.Batch{Size: len(masks), Length: end}
	for i, masked := range masks {
		tokens := slices.Clone(m.tokens[:end])
		for _, p := range masked {
			tokens[p] = m.spec.Mask
			b.ReadRows = append(b.ReadRows, int32(i*end+p))
		}
		b.Tokens = append(b.Tokens, tokens...)
		b.Time = append(b.Time, float64(m.spec.CountMasked(tokens))/float64(end))
	}

	release, err := m.Turn.Acquire(ctx, m.denoiser)
	if err != nil {
		return err
	}
	defer release()
	marginals, err := m.denoiser.Forward(ctx, b)
	if err != nil {
		return err
	}
	unassigned := make([]prediction, len(b.ReadRows))
	if err := m.readPredictions(marginals, b.ReadRows, end, unassigned); err != nil {
		return err
	}
	for i, masked := range masks {
		predictions[i] = unassigned[:len(masked)]
		unassigned = unassigned[len(masked):]
	}
	return nil
}

// readPredictions sets out to what the marginals say of the tokens at rows. All tokens but the mask
// have their probability, as in the original classes, also special ones, which are never drawn.
func (m *measure) readPredictions(marginals model.Marginals, rows []int32, length int,
	out []prediction) error {
	raw, ok := marginals.(model.Raw)
	if ok && !m.spec.Shifted && m.spec.Causal == model.NotCausal { // rows are positions
		marginals = raw.Raw()
	}
	err := marginals.Visit(rows, func(i int, logits []float32) {
		token := m.tokens[int(rows[i])%length]
		out[i] = m.predict(logits[:m.spec.Outcomes], token)
	})
	if err != nil {
		return err
	}
	for i, p := range out {
		if math.IsNaN(p.logP) {
			return fmt.Errorf("the logits of position %d are no distribution, want finite numbers: "+
				"the weights or the precision are unfit", int(rows[i])%length)
		}
	}
	return nil
}

// predict returns what logits say of a token.
func (m *measure) predict(logits []float32, token int32) prediction {
	var p prediction
	top := float32(math.Inf(-1))
	for t, l := range logits {
		if l > top && int32(t) != m.spec.Mask {
			top = l
			p.best = int32(t)
		}
	}
	sum := 0.0
	for t, l := range logits {
		if int32(t) != m.spec.Mask {
			sum += math.Exp(float64(l) - float64(top))
		}
	}
	p.bestLogP = -math.Log(sum)
	p.logP = float64(logits[token]) - float64(top) + p.bestLogP
	return p
}

// LogSum returns the logarithm of the sum of exp of all logits but that of mask, which is -1 for
// none. At least one of them is finite.
func LogSum(logits []float32, mask int32) float64 {
	top := math.Inf(-1)
	for t, l := range logits {
		if int32(t) != mask {
			top = max(top, float64(l))
		}
	}
	sum := 0.0
	for t, l := range logits {
		if int32(t) != mask {
			sum += math.Exp(float64(l) - top)
		}
	}
	return top + math.Log(sum)
}

// followOrder adds the chain rule over a part, in the order of a sampler that opens one position a
// step. What a step opens is the answer's own token.
func (m *measure) followOrder(ctx context.Context, part part) error {
	masked := model.Indexes(part.from, part.to)
	v := &samplers.View{
		Mask:       m.spec.Mask,
		Outcomes:   m.spec.Outcomes,
		Shape:      []int{part.end},
		Steps:      len(masked),
		FreeCount:  len(masked),
		Quota:      1,
		Noise:      samplers.ForOrder,
		OpenedLogP: make([]float64, part.end),
	}
	if s, ok := m.order.(samplers.Stateful); ok {
		v.State = s.NewState(part.end)
	}
	for step := 1; len(masked) > 0; step++ {
		v.Step = step
		v.Masked = masked
		v.Tokens = slices.Clone(m.tokens[:part.end])
		for _, p := range masked {
			v.Tokens[p] = m.spec.Mask
		}
		v.Rand = samplers.Rand{Seed: m.Seed, Sequence: m.Index, Step: uint32(part.from + step)}
		v.Reset()
		chosen, p, err := m.openOne(ctx, v)
		if err != nil {
			return err
		}
		m.addScore(chosen, p, 1)
		m.countPassed(1)
		v.OpenedLogP[chosen] = p.logP
		masked = slices.DeleteFunc(masked, func(p int) bool { return p == chosen })
	}
	return nil
}

// openOne makes a pass and returns the position that the order opens, and what the pass says of it.
func (m *measure) openOne(ctx context.Context, v *samplers.View) (chosen int, p prediction,
	err error) {
	release, err := m.Turn.Acquire(ctx, m.denoiser)
	if err != nil {
		return 0, p, err
	}
	defer release()
	length := len(v.Tokens)
	b := &model.Batch{
		Size:   1,
		Length: length,
		Tokens: v.Tokens,
		Time:   []float64{float64(m.spec.CountMasked(v.Tokens)) / float64(length)},
	}
	for _, p := range v.Masked {
		b.ReadRows = append(b.ReadRows, int32(p))
	}
	marginals, err := m.denoiser.Forward(ctx, b)
	if err != nil {
		return 0, p, err
	}
	if err := m.measureMasked(marginals, b.ReadRows, v); err != nil {
		return 0, p, err
	}
	chosen = m.order.Rank(v, 1)[0]
	out := make([]prediction, 1)
	err = m.readPredictions(marginals, []int32{int32(chosen)}, length, out)
	return chosen, out[0], err
}

// measureMasked sets the measures of the marginals that the order needs.
func (m *measure) measureMasked(marginals model.Marginals, rows []int32, v *samplers.View) error {
	n := len(rows)
	need := samplers.NeedsFor(m.order, v.Step, v.Steps, 1)
	stats := model.Stats{Beta: need.Beta}
	if need.Beta != 0 {
		stats.LogMoment = make([]float64, n)
	}
	if need.Entropy {
		stats.Entropy = make([]float64, n)
	}
	if need.Top {
		stats.P1 = make([]float64, n)
		stats.P2 = make([]float64, n)
		stats.Arg = make([]int32, n)
	}
	if need.LogSum {
		stats.LogSum = make([]float64, n)
	}
	if err := marginals.Stats(rows, &stats); err != nil {
		return err
	}
	v.LogMoment = stats.LogMoment
	v.Entropy = stats.Entropy
	v.LogSum = stats.LogSum
	v.P1 = stats.P1
	v.P2 = stats.P2
	v.Arg = stats.Arg
	return nil
}

// runCausal adds the chain rule from left to right, in one pass of a model that runs so: each row
// sees the tokens before it, and predicts the next.
func (m *measure) runCausal(ctx context.Context) error {
	feeder, ok := m.denoiser.(model.Feeder)
	if !ok {
		return fmt.Errorf("the model has no causal passes")
	}
	last := m.to - 1 // no later token needs its row
	b := &model.Batch{Size: 1, Length: m.to, Lengths: []int{last}, Tokens: m.tokens[:m.to]}
	var rows []int32
	for p := range last {
		rows = append(rows, int32(p))
	}
	for p := m.from; p < m.to; p++ {
		b.ReadRows = append(b.ReadRows, int32(p))
	}

	release, err := m.Turn.Acquire(ctx, m.denoiser)
	if err != nil {
		return err
	}
	defer release()
	b.Cache = feeder.NewCache(1, m.to)
	marginals, err := feeder.Feed(ctx, b, rows, model.Commit)
	if err != nil {
		return err
	}
	out := make([]prediction, len(b.ReadRows))
	if err := m.readPredictions(marginals, b.ReadRows, m.to, out); err != nil {
		return err
	}
	for i, p := range out {
		m.addScore(m.from+i, p, 1)
	}
	m.countPassed(1)
	return nil
}
