package samplers

import (
	"math/bits"
	"sync"

	"unmask/backend/rank"
)

// Halton is the fixed order of a low-discrepancy sequence (Besnier et al. 2025; Hayakawa et al.
// 2025, appendix "Hybrid algorithm" for one dimension). It spreads the positions of a step, so that
// they depend little on each other.
type Halton struct{}

// Needs nothing: positions are chosen first.
func (Halton) Needs(int, int) Need { return Need{} }

// Rank returns the first k masked positions of the order of v.Shape.
func (Halton) Rank(v *View, k int) []int {
	ranked := v.Ints(min(k, len(v.Masked)))[:0]
	low := 0
	high := 0
	if n := len(v.Masked); n > 0 {
		low = v.Masked[0]
		high = v.Masked[n-1]
	}
	for _, p := range HaltonOrder(v.Shape...) {
		if len(ranked) == cap(ranked) {
			break
		}
		// Between its ends Masked has all masked positions, or, block by block, only some of them.
		if int(p) >= low && int(p) <= high && v.Tokens[p] == v.Mask {
			ranked = append(ranked, int(p))
		}
	}
	return ranked
}

// Ranking ranks by the fixed order.
func (Halton) Ranking(_, _ int, shape []int) (Ranking, bool) {
	r := rankBy(rank.ByOrder)
	r.Order = HaltonOrder(shape...)
	return r, true
}

// haltonOrders has the orders that were computed, by [2]int of height and width, as []int32. An
// order takes longer to compute than a step, and devices compare orders by their address.
var haltonOrders sync.Map

// HaltonOrder returns the order of all positions of [length] or [height, width], each exactly once.
// The slice is shared and must not be changed.
//
// In one dimension it is the base-2 radical inverse of 1, 2, 3, ... scaled to the length, first
// occurrences. In two, point k is (phi2(k), phi3(k)) in the cell (floor(height*phi2),
// floor(width*phi3)), first occurrences. Points are generated until every cell is covered, in exact
// arithmetic.
func HaltonOrder(shape ...int) []int32 {
	key := [2]int{shape[0], 1}
	if len(shape) == 2 {
		key[1] = shape[1]
	}
	if order, ok := haltonOrders.Load(key); ok {
		return order.([]int32)
	}
	order, _ := haltonOrders.LoadOrStore(key, computeHaltonOrder(key[0], key[1]))
	return order.([]int32)
}

// computeHaltonOrder returns the order of a grid of height and width; a width of 1 is a line.
func computeHaltonOrder(height, width int) []int32 {
	order := make([]int32, 0, height*width)
	seen := make([]bool, height*width)
	inverse3 := radicalInverse3()
	for k := uint32(1); len(order) < len(seen); k++ {
		cell := int(uint64(height)*uint64(bits.Reverse32(k))>>32) * width
		if width > 1 {
			cell += inverse3(width)
		}
		if !seen[cell] {
			seen[cell] = true
			order = append(order, int32(cell))
		}
	}
	return order
}

// radicalInverse3 returns a function that counts k = 1, 2, 3, ... and returns floor(n*phi3(k)),
// computed from base-3 digits as an integer over 3^20.
func radicalInverse3() func(n int) int {
	const digits = 20
	const whole = 3486784401 // 3^20
	var digit [digits]uint8
	var value uint64
	return func(n int) int {
		place := uint64(whole / 3)
		for i := range digits {
			if digit[i] < 2 {
				digit[i]++
				value += place
				break
			}
			digit[i] = 0
			value -= 2 * place
			place /= 3
		}
		return int(uint64(n) * value / whole)
	}
}
