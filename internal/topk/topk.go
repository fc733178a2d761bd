// Package topk finds the largest elements of a row.
package topk

import (
	"cmp"
	"math"
	"slices"

	"unmask/internal/simd"
	"unmask/internal/simd/screen"
	"unmask/internal/simd/vec"
)

// Largest writes the indices of the k largest elements of x to index, the largest first, and
// returns it, at most as long as x. NaN is never among them. k is at most screen.Size/2.
func Largest(index []int32, x []float32, k int) []int32 {
	return insertLargest(index[:0], x, k, lowerBound(x, k))
}

// insertLargest adds to index, which is empty, the k largest elements above bound. A kernel
// screens the row for candidates, so that few are examined one by one.
func insertLargest(index []int32, x []float32, k int, bound float32) []int32 {
	var large screen.Set
	ops := screen.Ops(simd.Default().ISA)
	for first := 0; first < len(x); first += screen.Size {
		part := x[first:min(first+screen.Size, len(x))]
		ops.Above(&large, part, bound)
		for i := range large.All() {
			v := part[i]
			if v <= bound { // it has risen meanwhile
				continue
			}
			place, _ := slices.BinarySearchFunc(index, v, func(a int32, v float32) int {
				return cmp.Compare(v, x[a])
			})
			index = slices.Insert(index[:min(len(index), k-1)], place, int32(first+i))
			if len(index) == k {
				bound = x[index[k-1]]
			}
		}
	}
	return index
}

// lowerBound returns, cheaply, a value below the k-th largest element: just below the k-th largest
// of the maxima of at least 2k columns, into which the row is folded. With it, insertLargest looks
// at few elements from the start on.
func lowerBound(x []float32, k int) float32 {
	lowest := float32(math.Inf(-1))
	if len(x) < screen.Size || 2*k > screen.Size {
		return lowest
	}
	ops := vec.Ops(simd.Default().ISA)
	var top [screen.Size]float32
	remaining := x[copy(top[:], x):]
	for len(remaining) > 0 {
		n := min(len(remaining), len(top))
		ops.Maximum(top[:n], remaining[:n])
		remaining = remaining[n:]
	}
	n := len(top)
	for ; n/2 >= 2*k; n /= 2 {
		ops.Maximum(top[:n/2], top[n/2:n])
	}
	slices.Sort(top[:n])
	return math.Nextafter32(top[n-k], lowest)
}
