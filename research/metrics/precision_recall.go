package metrics

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// PrecisionRecall returns the share of generated samples among the real ones, and of real ones
// among the generated ones (Kynkaanniemi et al., "Improved precision and recall metric for
// assessing generative models", 2019), by their features [n][width]. A sample is among a set if its
// distance from some member is at most that member's distance from its k-th nearest neighbour in
// the set; k is 3 in the paper. Distances are Euclidean, exact up to float64's rounding. Time grows
// with the product of the numbers of samples, memory does not.
func PrecisionRecall(ctx context.Context, real, generated [][]float32, k int) (precision,
	recall float64, err error) {
	if k < 1 || len(real) <= k || len(generated) <= k {
		return 0, 0, fmt.Errorf("%d real and %d generated features with %d neighbours, want more "+
			"features than neighbours", len(real), len(generated), k)
	}
	width := len(real[0])
	for _, set := range [][][]float32{real, generated} {
		for i, f := range set {
			if len(f) != width {
				return 0, 0, fmt.Errorf("feature %d has %d values, the others %d", i, len(f), width)
			}
			for j, v := range f {
				if v-v != 0 {
					return 0, 0, fmt.Errorf("value %d of feature %d is %v, want a finite number", j, i, v)
				}
			}
		}
	}
	realRadii, err := neighbourRadii(ctx, real, k)
	if err != nil {
		return 0, 0, err
	}
	generatedRadii, err := neighbourRadii(ctx, generated, k)
	if err != nil {
		return 0, 0, err
	}
	isPrecise := make([]bool, len(generated))
	isRecalled := make([]bool, len(real))
	err = eachDistance(ctx, real, generated, func(i, j int, d float64) {
		isPrecise[j] = isPrecise[j] || d <= realRadii[i]
		isRecalled[i] = isRecalled[i] || d <= generatedRadii[j]
	})
	return shareOfTrue(isPrecise), shareOfTrue(isRecalled), err
}

// neighbourRadii returns, for each member of a set, the squared distance from its k-th nearest
// neighbour in the set.
func neighbourRadii(ctx context.Context, set [][]float32, k int) ([]float64, error) {
	nearest := make([][]float64, len(set))
	err := eachDistance(ctx, set, set, func(i, j int, d float64) {
		if i != j {
			nearest[i] = insertLeast(nearest[i], d, k)
		}
	})
	if err != nil {
		return nil, err
	}
	radius := make([]float64, len(set))
	for i := range radius {
		radius[i] = nearest[i][k-1]
	}
	return radius, nil
}

// shareOfTrue returns the share of true elements.
func shareOfTrue(list []bool) float64 {
	n := 0
	for _, b := range list {
		if b {
			n++
		}
	}
	return float64(n) / float64(len(list))
}

// insertLeast inserts d into the k least values, which are ascending, and drops what is then too
// much. Until there are k of them, it only inserts.
func insertLeast(nearest []float64, d float64, k int) []float64 {
	if len(nearest) == k && d >= nearest[k-1] {
		return nearest
	}
	index, _ := slices.BinarySearch(nearest, d)
	nearest = slices.Insert(nearest, index, d)
	return nearest[:min(len(nearest), k)]
}

// tile is the number of features of each side that are compared at once.
const tile = 256

// eachDistance visits the squared distances of all pairs, |a|^2 + |b|^2 - 2ab by blocks.
func eachDistance(ctx context.Context, as, bs [][]float32, visit func(i, j int, d float64)) error {
	a := newFeatureBlock(as)
	b := newFeatureBlock(bs)
	products := blas64.General{Stride: tile, Data: make([]float64, tile*tile)}
	for i := 0; i < len(as); i += tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.fill(as[i:min(i+tile, len(as))])
		for j := 0; j < len(bs); j += tile {
			b.fill(bs[j:min(j+tile, len(bs))])
			products.Rows = a.rows.Rows
			products.Cols = b.rows.Rows
			blas64.Gemm(blas.NoTrans, blas.Trans, -2, a.rows, b.rows, 0, products)
			for r, n := range a.norms {
				for c, m := range b.norms {
					visit(i+r, j+c, max(n+m+products.Data[r*tile+c], 0))
				}
			}
		}
	}
	return nil
}

// featureBlock is a few features in float64 and their squared lengths.
type featureBlock struct {
	rows  blas64.General
	norms []float64
}

// newFeatureBlock returns a block with room for `tile` rows of the features' width.
func newFeatureBlock(features [][]float32) *featureBlock {
	width := len(features[0])
	return &featureBlock{rows: blas64.General{
		Cols:   width,
		Stride: max(width, 1),
		Data:   make([]float64, tile*width),
	}}
}

// fill replaces the features.
func (b *featureBlock) fill(features [][]float32) {
	b.rows.Rows = len(features)
	b.norms = b.norms[:0]
	for i, f := range features {
		var sum float64
		for j, v := range f {
			b.rows.Data[i*len(f)+j] = float64(v)
			sum += float64(v) * float64(v)
		}
		b.norms = append(b.norms, sum)
	}
}
