package constrain

import (
	"cmp"
	"math"
	"slices"

	"unmask/model"
)

// maxWeights bounds the memory of the probabilities that one call of the head computes for draws,
// in numbers.
const maxWeights = 1 << 21

// Sample draws tokens at rows from the law of their sequences, those of one sequence together. LogP
// is the logarithm of the marginal given the language.
//
// The rows of a sequence are drawn from left to right, each from its marginal given the language
// and the rows before it, summed over what all other positions may become. So what is drawn can be
// completed later. A token is found in order of ids, as without a language: neither how the
// language divides the vocabulary nor which automaton stands for it shows in what is drawn.
//
// At a row whose token is known, another one is drawn that could stand in its place, given all that
// is known; two such rows do not know of each other.
func (m *Marginals) Sample(rows []int32, d *model.Draw) error {
	tokens := slices.Repeat([]int32{-1}, len(rows))
	power := cmp.Or(d.Power, 1)
	inside := slices.DeleteFunc(m.orderOf(rows), func(i int) bool {
		_, _, inside := m.locate(rows[i])
		return !inside
	})
	var s sequenceDraw
	perCall := max(1, maxWeights/m.Outcomes)
	for part := range slices.Chunk(inside, perCall) {
		if err := m.readWeights(rows, part, power); err != nil {
			return err
		}
		for j, i := range part {
			if m.isKnown(rows[i]) {
				token, err := m.redrawRow(rows[i], m.weightsOf(j), power, d.Uniform[i])
				if err != nil {
					return err
				}
				tokens[i] = token
				continue
			}
			index, position, _ := m.locate(rows[i])
			if s.chain == nil || s.index != index {
				w, err := m.chain(index, position, power)
				if err != nil {
					return err
				}
				s.begin(w.chain, index, position)
			}
			s.moveTo(position)
			token, err := m.drawRow(&s, rows[i], m.weightsOf(j), power, d.Uniform[i])
			if err != nil {
				return err
			}
			tokens[i] = token
			s.take(token)
		}
	}
	return m.finishDraw(rows, tokens, d)
}

// redrawRow draws a token that could stand at a row whose token is known. Where the filters leave
// none, it is the one that is there.
func (m *Marginals) redrawRow(row int32, weights []float64, power, uniform float64) (int32, error) {
	index, position, _ := m.locate(row)
	w, err := m.chain(index, position, power)
	if err != nil {
		return -1, err
	}
	l := m.Sequence(index).Language
	token := drawToken(weights, w.chain.Coefficients(position, nil), l.Class, uniform)
	if token < 0 {
		token = m.Sequence(index).tokens[position]
	}
	return token, nil
}

// readWeights sets weights to the probabilities p^power of the rows with some indexes, up to a
// factor for each row.
func (m *Marginals) readWeights(rows []int32, indexes []int, power float64) error {
	if n := len(indexes) * m.Outcomes; len(m.weights) < n {
		m.weights = make([]float64, n)
	}
	askedRows := make([]int32, len(indexes))
	for j, i := range indexes {
		askedRows[j] = rows[i]
	}
	return m.Filtered.Visit(askedRows, func(j int, logits []float32) {
		setWeights(m.weightsOf(j), logits, power)
	})
}

// weightsOf returns the weights of row j of the latest call.
func (m *Marginals) weightsOf(j int) []float64 {
	return m.weights[j*m.Outcomes : (j+1)*m.Outcomes]
}

// setWeights sets weights to p^power, 1 for the most probable token; all are 0 if none is possible.
func setWeights(weights []float64, logits []float32, power float64) {
	logits = logits[:len(weights)]
	top := float64(slices.Max(logits))
	if math.IsInf(top, -1) {
		clear(weights)
		return
	}
	for v, x := range logits {
		weights[v] = math.Exp(power * (float64(x) - top))
	}
}

// drawRow draws a row's token, given its weights. Where the filters left nothing that the language
// allows, they give way.
func (m *Marginals) drawRow(s *sequenceDraw, row int32, weights []float64, power, uniform float64) (
	int32, error) {
	coefficients := s.chain.coefficientsFrom(s.position, s.sums, nil)
	class := s.chain.l.Class
	if token := drawToken(weights, coefficients, class, uniform); token >= 0 {
		return token, nil
	}
	m.Sequence(s.index).FilterOverruled++
	err := m.Raw.Visit([]int32{row}, func(_ int, logits []float32) {
		setWeights(weights, logits, power)
	})
	if err != nil {
		return -1, err
	}
	if token := drawToken(weights, coefficients, class, uniform); token >= 0 {
		return token, nil
	}
	for v := range weights {
		weights[v] = 1
	}
	return drawToken(weights, coefficients, class, uniform), nil
}

// drawToken multiplies weights by the coefficients of their classes, and returns the first token at
// which their cumulative sum exceeds uniform times the whole; -1 if all are 0.
func drawToken(weights, coefficients []float64, class []int32, uniform float64) int32 {
	whole := 0.0
	for v, k := range class[:len(weights)] {
		if k < 0 {
			weights[v] = 0
			continue
		}
		weights[v] *= coefficients[k]
		whole += weights[v]
	}

	// Rounding may leave a rest of target at the end; the last possible token has it.
	token := int32(-1)
	target := uniform * whole
	for v, x := range weights {
		if x > 0 {
			token = int32(v)
			target -= x
			if target < 0 {
				break
			}
		}
	}
	return token
}

// sequenceDraw draws tokens of one sequence, from left to right.
type sequenceDraw struct {
	chain *Chain
	index int

	// position is the next one in the language, and sums has, for each of the chain's states before
	// it, the probability of what was drawn with an end in that state, up to a factor.
	position int
	sums     []float64
	spare    []float64
}

// begin begins with the first position that is drawn of a sequence.
func (s *sequenceDraw) begin(c *Chain, index, position int) {
	c.seekForward(position)
	s.chain = c
	s.index = index
	s.position = position
	s.sums = append(s.sums[:0], c.forward...)
}

// moveTo goes past positions that are not drawn.
func (s *sequenceDraw) moveTo(position int) {
	for ; s.position < position; s.position++ {
		s.advance(s.chain.sumsAfter(s.position, s.sums, s.spare))
	}
}

// take goes past a position at which a token was drawn.
func (s *sequenceDraw) take(token int32) {
	s.advance(s.chain.sumsAfterToken(s.position, token, s.sums, s.spare))
	s.position++
}

func (s *sequenceDraw) advance(next []float64) {
	s.spare = s.sums
	s.sums = next
}

// finishDraw draws the rows outside of languages, and sets LogP.
func (m *Marginals) finishDraw(rows, tokens []int32, d *model.Draw) error {
	var outside, inside []int
	for i, row := range rows {
		if _, _, isInside := m.locate(row); !isInside {
			outside = append(outside, i)
			continue
		}
		inside = append(inside, i)
		d.Token[i] = tokens[i]
	}
	if err := m.drawOutside(rows, outside, d); err != nil || d.LogP == nil {
		return err
	}
	return m.setLogP(rows, inside, d)
}

// drawOutside draws the rows with some indexes, which no language has, as the network does.
func (m *Marginals) drawOutside(rows []int32, indexes []int, d *model.Draw) error {
	n := len(indexes)
	if n == 0 {
		return nil
	}
	partRows := make([]int32, n)
	part := model.Draw{Power: d.Power, Uniform: make([]float64, n), Token: make([]int32, n),
		LogP: make([]float64, n)}
	for k, i := range indexes {
		partRows[k] = rows[i]
		part.Uniform[k] = d.Uniform[i]
	}
	if err := m.Filtered.Sample(partRows, &part); err != nil {
		return err
	}
	for k, i := range indexes {
		d.Token[i] = part.Token[k]
		if d.LogP != nil {
			d.LogP[i] = part.LogP[k]
		}
	}
	return nil
}

// setLogP sets LogP of the rows with some indexes, which belong to languages.
func (m *Marginals) setLogP(rows []int32, indexes []int, d *model.Draw) error {
	coefficients, err := m.logCoefficients(rows)
	if err != nil {
		return err
	}
	sums := model.Stats{LogSum: make([]float64, len(rows))}
	plain := slices.DeleteFunc(slices.Clone(indexes), func(i int) bool {
		return coefficients[i] != nil
	})
	if err := m.plainStats(rows, plain, &sums); err != nil {
		return err
	}
	var fault rowFault
	err = m.visitWeighted(rows, indexes, coefficients, func(i int, logits []float32,
		weighted []float64) {
		if weighted == nil {
			d.LogP[i] = float64(logits[d.Token[i]]) - sums.LogSum[i]
			return
		}
		if err := model.ReduceRow(weighted, &sums, i); err != nil {
			fault.report(rows[i], err)
			return
		}
		d.LogP[i] = min(weighted[d.Token[i]]-sums.LogSum[i], 0) // above 0 by rounding alone
	})
	return cmp.Or(err, fault.err())
}
