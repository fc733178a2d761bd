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
	// masks are different sets of masked positions, each ascending.
	masks [][]int
	draws []draw

	// unit is the number of consecutive draws that make one summand of the estimate, and group that
	// of consecutive summands that are drawn alike: their scatter is the error.
	unit  int
	group int
}

// draw adds weight * log p of some positions, given a mask.
type draw struct {
	// mask is an index in plan.masks, and scored are some of its positions.
	mask   int
	scored []int
	weight float64
}

// planner makes a plan.
type planner struct {
	plan

	// index has, for the bytes of a mask, its index in plan.masks.
	index map[string]int
}

// addDraw adds a draw; masked is in any order. Equal masks are computed once.
func (p *planner) addDraw(masked, scored []int, weight float64) {
	masked = slices.Sorted(slices.Values(masked))
	key := make([]byte, 0, 3*len(masked))
	for _, position := range masked {
		key = append(key, byte(position), byte(position>>8), byte(position>>16))
	}
	i, isKnown := p.index[string(key)]
	if !isKnown {
		i = len(p.masks)
		p.index[string(key)] = i
		p.masks = append(p.masks, masked)
	}
	p.draws = append(p.draws, draw{mask: i, scored: scored, weight: weight})
}

// planPart returns the plan of part number n.
func (m *measure) planPart(n int, part part) plan {
	length := part.to - part.from
	p := planner{plan: plan{unit: 1, group: 1}, index: map[string]int{}}
	// A step for each draw of each part, so that no random number is used twice.
	stream := philox.Stream{Seed: m.Seed, Sequence: m.Index, Step: uint32(n) * 2 * uint32(m.Passes)}
	switch m.Method {
	case LeftToRight:
		for i := part.from; i < part.to; i++ {
			p.addDraw(model.Indexes(i, part.to), []int{i}, 1)
		}
	case Random:
		orders := max(2, (m.Passes+length-1)/length)
		p.unit = length
		p.group = orders
		for o := range orders {
			order := shuffledPositions(stream.At(int(stream.Step)+o), part)
			for i := range order {
				p.addDraw(order[i:], order[i:i+1], 1/float64(orders))
			}
		}
	case Stratified:
		if length < bits.Len(uint(m.Passes)+1) { // 2^length-1 masks are no more than the passes
			p.addAllMasks(part)
			break
		}
		m.addMasks(&p, stream, part, (m.Passes+1)/2)
	case MonteCarlo:
		m.addMasks(&p, stream, part, 1)
	}
	return p.plan
}

// addMasks adds draws of k from each of n strata of 1..length, and of k positions.
func (m *measure) addMasks(p *planner, stream philox.Stream, part part, strata int) {
	length := part.to - part.from
	p.group = max(2, m.Passes/strata)
	n := strata * p.group
	for i := range n {
		s := stream.At(int(stream.Step) + i)
		u := (float64(i/p.group) + s.Uniform(0, philox.Setup)) / float64(strata)
		k := min(1+int(u*float64(length)), length)
		masked := shuffledPositions(s, part)[:k]
		p.addDraw(masked, masked, float64(length)/float64(k)/float64(n))
	}
}

// addAllMasks adds each mask once, with the probability that it is drawn.
func (p *planner) addAllMasks(part part) {
	length := part.to - part.from
	for set := 1; set < 1<<length; set++ {
		var masked []int
		for i := range length {
			if set>>i&1 == 1 {
				masked = append(masked, part.from+i)
			}
		}
		k := float64(len(masked))
		p.addDraw(masked, masked, 1/(k*binomial(length, len(masked))))
	}
}

// binomial returns the number of sets of k of n things.
func binomial(n, k int) float64 {
	b := 1.0
	for i := 1; i <= k; i++ {
		b *= float64(n-k+i) / float64(i)
	}
	return b
}

// shuffledPositions returns a part's positions in a random order.
func shuffledPositions(s philox.Stream, part part) []int {
	key := make([]float64, part.to)
	for p := part.from; p < part.to; p++ {
		key[p] = s.Uniform(p, philox.Order)
	}
	order := model.Indexes(part.from, part.to)
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(key[a], key[b]), a-b) })
	return order
}

// squaredError returns the square of the standard error of the sum of the units: that of a mean of
// independent summands, added over groups.
func (p *plan) squaredError(units []float64) (sum float64) {
	if p.group < 2 {
		return 0
	}
	n := float64(p.group)
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
