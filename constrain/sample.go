package constrain

import (
	"cmp"
	"math"

	"unmask/model"
)

// Sample draws tokens at rows from the law of their sequences, those of one sequence together. LogP
// is the logarithm of the marginal given the language.
func (m *Marginals) Sample(rows []int32, d *model.Draw) error {
	power := cmp.Or(d.Power, 1)
	sets, uniform := make([]int32, len(rows)), make([]float64, len(rows))
	byRow := make(map[int32]int, len(rows))
	for i, r := range rows {
		sets[i] = -1
		byRow[r] = i
	}
	paths := map[int][]step{}
	for i, r := range rows {
		index, at, inside := m.place(r)
		if !inside {
			continue
		}
		path, ok := paths[index]
		if !ok {
			w, err := m.chain(index, power)
			if err != nil {
				return err
			}
			q := m.Sequence(index)
			q.draws++
			path = w.chain.draw(nil, func(k int) float64 {
				if j, ok := byRow[int32(index*m.Length+q.Language.FirstPosition+k)]; ok {
					return d.Uniform[j]
				}
				return q.Uniform(q.Language.FirstPosition+k, q.draws)
			})
			paths[index] = path
		}
		sets[i], uniform[i] = path[at].set, path[at].uniform
		if sets[i] < 0 { // an open position: its token stays
			d.Token[i] = m.Sequence(index).tokens[at]
		}
	}
	token := make([]int32, len(rows))
	err := m.choose(rows, sets, token, func(i int, logits []float32, in func(v int) bool) int32 {
		return drawIn(logits, power, uniform[i], in)
	})
	if err != nil {
		return err
	}
	return m.finish(rows, token, d)
}

// finish draws the rows outside of languages, and sets LogP.
func (m *Marginals) finish(rows, token []int32, d *model.Draw) error {
	var fault rowFault
	err := m.Visit(rows, func(i int, logits []float32) {
		_, _, inside := m.place(rows[i])
		if !inside {
			if err := model.DrawRow(logits, d, i); err != nil {
				fault.set(rows[i], err)
			}
			return
		}
		if token[i] >= 0 {
			d.Token[i] = token[i]
		}
		if d.LogP == nil {
			return
		}
		s := model.Stats{LogSum: make([]float64, 1)}
		if err := model.ReduceRow(logits, &s, 0); err != nil {
			fault.set(rows[i], err)
			return
		}
		d.LogP[i] = min(float64(logits[d.Token[i]])-s.LogSum[0], 0)
	})
	return cmp.Or(err, fault.err())
}

// drawIn draws a token of a set from p^power, -1 if all have no probability.
func drawIn(logits []float32, power, uniform float64, in func(v int) bool) int32 {
	top := math.Inf(-1)
	for v, x := range logits {
		if in(v) {
			top = max(top, float64(x))
		}
	}
	if math.IsInf(top, -1) {
		return -1
	}
	weight := func(x float32) float64 { return math.Exp(power * (float64(x) - top)) }
	whole := 0.0
	for v, x := range logits {
		if in(v) {
			whole += weight(x)
		}
	}
	token, target := int32(-1), uniform*whole
	for v, x := range logits {
		if w := weight(x); w > 0 && in(v) {
			token = int32(v)
			if target -= w; target < 0 {
				break
			}
		}
	}
	return token
}
