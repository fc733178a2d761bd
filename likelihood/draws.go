package likelihood

import (
	"cmp"
	"math/bits"
	"slices"

	"unmask/internal/philox"
	"unmask/model"
)

// plan is what goes through the model for a part of the answer, and how it is averaged.
type plan struct {
	masks [][]int // different sets of masked positions, each ascending
	draws []draw
	// consecutive draws that make one summand of the estimate, and consecutive summands that are
	// drawn alike: their scatter is the error
	unit, group int
}

// draw adds weight * log p of some positions, given a mask.
type draw struct {
	mask   int   // index in plan.masks
	scored []int // of the masked positions
	weight float64
}

// planner makes a plan.
type planner struct {
	plan
	index map[string]int // of a mask in plan.masks
}

// add adds a draw; masked is in any order. Equal masks are computed once.
func (p *planner) add(masked, scored []int, weight float64) {
	masked = slices.Sorted(slices.Values(masked))
	key := make([]byte, 0, 2*len(masked))
	for _, at := range masked {
		key = append(key, byte(at), byte(at>>8), byte(at>>16))
	}
	i, known := p.index[string(key)]
	if !known {
		i = len(p.masks)
		p.index[string(key)], p.masks = i, append(p.masks, masked)
	}
	p.draws = append(p.draws, draw{i, scored, weight})
}

// plan returns the plan of part number n.
func (m *measure) plan(n int, at part) plan {
	length := at.to - at.from
	p := planner{plan: plan{unit: 1, group: 1}, index: map[string]int{}}
	// A step for each draw of each part, so that no random number is used twice.
	stream := philox.Stream{Seed: m.Seed, Sequence: m.Index, Step: uint32(n) * 2 * uint32(m.Passes)}
	switch m.Method {
	case LeftToRight:
		for i := at.from; i < at.to; i++ {
			p.add(model.Indexes(i, at.to), []int{i}, 1)
		}
	case Random:
		orders := max(2, (m.Passes+length-1)/length)
		p.unit, p.group = length, orders
		for o := range orders {
			order := shuffled(stream.At(int(stream.Step)+o), at)
			for i := range order {
				p.add(order[i:], order[i:i+1], 1/float64(orders))
			}
		}
	case Stratified:
		if length < bits.Len(uint(m.Passes)+1) {
			p.every(at)
			break
		}
		m.masks(&p, stream, at, (m.Passes+1)/2)
	case MonteCarlo:
		m.masks(&p, stream, at, 1)
	}
	return p.plan
}

// masks adds draws of k from each of n strata of 1..length, and of k positions.
func (m *measure) masks(p *planner, stream philox.Stream, at part, strata int) {
	length := at.to - at.from
	p.group = max(2, m.Passes/strata)
	n := strata * p.group
	for i := range n {
		s := stream.At(int(stream.Step) + i)
		u := (float64(i/p.group) + s.Uniform(0, philox.Setup)) / float64(strata)
		k := min(1+int(u*float64(length)), length)
		masked := shuffled(s, at)[:k]
		p.add(masked, masked, float64(length)/float64(k)/float64(n))
	}
}

// every adds each mask once, with the probability that it is drawn.
func (p *planner) every(at part) {
	length := at.to - at.from
	for set := 1; set < 1<<length; set++ {
		var masked []int
		for i := range length {
			if set>>i&1 == 1 {
				masked = append(masked, at.from+i)
			}
		}
		k := float64(len(masked))
		p.add(masked, masked, 1/(k*binomial(length, len(masked))))
	}
}

func binomial(n, k int) float64 {
	b := 1.0
	for i := 1; i <= k; i++ {
		b *= float64(n-k+i) / float64(i)
	}
	return b
}

// shuffled returns a part's positions in a random order.
func shuffled(s philox.Stream, at part) []int {
	key := make([]float64, at.to)
	for p := at.from; p < at.to; p++ {
		key[p] = s.Uniform(p, philox.Order)
	}
	order := model.Indexes(at.from, at.to)
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(key[a], key[b]), a-b) })
	return order
}

// square returns the square of the standard error of the sum of the units: that of a mean of
// independent summands, added over groups.
func (p *plan) square(units []float64) (sum float64) {
	n := float64(p.group)
	if p.group < 2 {
		return 0
	}
	for group := range slices.Chunk(units, p.group) {
		mean := 0.0
		for _, u := range group {
			mean += u / n
		}
		for _, u := range group {
			sum += n / (n - 1) * (u - mean) * (u - mean)
		}
	}
	return sum
}
