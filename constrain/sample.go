package constrain

import (
	"cmp"
	"math"

	"unmask/model"
)

// Sample draws tokens at rows from the law of their sequences, those of one sequence together. LogP
// is the logarithm of the marginal given the language.
//
// A whole path through the language is drawn for each sequence, and only the rows that are asked
// for are taken from it, so that what is drawn now can be completed later.
func (m *Marginals) Sample(rows []int32, d *model.Draw) error {
	power := cmp.Or(d.Power, 1)
	sets := make([]int32, len(rows))
	uniform := make([]float64, len(rows))
	byRow := make(map[int32]int, len(rows))
	for i, r := range rows {
		sets[i] = -1
		byRow[r] = i
	}

	paths := map[int][]pathEdge{}
	for i, r := range rows {
		index, position, inside := m.locate(r)
		if !inside {
			continue
		}
		path, ok := paths[index]
		if !ok {
			w, err := m.chain(index, power)
			if err != nil {
				return err
			}
			path = m.drawPath(index, w.chain, byRow, d)
			paths[index] = path
		}
		sets[i] = path[position].set
		uniform[i] = path[position].uniform
		if sets[i] < 0 { // an open position: its token stays
			d.Token[i] = m.Sequence(index).tokens[position]
		}
	}

	tokens := make([]int32, len(rows))
	err := m.pickFromSets(rows, sets, tokens,
		func(i int, logits []float32, inSet func(v int) bool) int32 {
			return drawInSet(logits, power, uniform[i], inSet)
		})
	if err != nil {
		return err
	}
	return m.finishDraw(rows, tokens, d)
}

// drawPath draws a path for a sequence. Rows that are asked for use their own uniform numbers, the
// sequence's other positions those of Sequence.Uniform. byRow is the index of each row in d.
func (m *Marginals) drawPath(index int, c *Chain, byRow map[int32]int, d *model.Draw) []pathEdge {
	q := m.Sequence(index)
	q.draws++
	return c.drawPath(nil, func(k int) float64 {
		position := q.Language.FirstPosition + k
		if i, ok := byRow[int32(index*m.Length+position)]; ok {
			return d.Uniform[i]
		}
		return q.Uniform(position, q.draws)
	})
}

// finishDraw draws the rows outside of languages, and sets LogP.
func (m *Marginals) finishDraw(rows, tokens []int32, d *model.Draw) error {
	var fault rowFault
	err := m.Visit(rows, func(i int, logits []float32) {
		_, _, inside := m.locate(rows[i])
		if !inside {
			if err := model.DrawRow(logits, d, i); err != nil {
				fault.report(rows[i], err)
			}
			return
		}
		if tokens[i] >= 0 {
			d.Token[i] = tokens[i]
		}
		if d.LogP == nil {
			return
		}
		s := model.Stats{LogSum: make([]float64, 1)}
		if err := model.ReduceRow(logits, &s, 0); err != nil {
			fault.report(rows[i], err)
			return
		}
		d.LogP[i] = min(float64(logits[d.Token[i]])-s.LogSum[0], 0)
	})
	return cmp.Or(err, fault.err())
}

// drawInSet draws a token of a set from p^power, -1 if all have no probability.
func drawInSet(logits []float32, power, uniform float64, inSet func(v int) bool) int32 {
	top := math.Inf(-1)
	for v, x := range logits {
		if inSet(v) {
			top = max(top, float64(x))
		}
	}
	if math.IsInf(top, -1) {
		return -1
	}
	weight := func(x float32) float64 { return math.Exp(power * (float64(x) - top)) }
	whole := 0.0
	for v, x := range logits {
		if inSet(v) {
			whole += weight(x)
		}
	}

	token := int32(-1)
	target := uniform * whole
	for v, x := range logits {
		w := weight(x)
		if w > 0 && inSet(v) {
			token = int32(v)
			target -= w
			if target < 0 {
				break
			}
		}
	}
	return token
}
