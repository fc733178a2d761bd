package metrics

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Frechet is the squared Frechet distance of two Gaussians (Dowson & Landau 1982),
//
//	|m1-m2|^2 + tr C1 + tr C2 - 2 tr (C1 C2)^(1/2);
//
// of Inception-v3's pooled features it is the FID (Heusel et al. 2017). With fewer samples than the
// features' width the covariances are singular, which is allowed.
func Frechet(a, b Gaussian) (float64, error) {
	if len(a.Mean) != len(b.Mean) {
		return 0, fmt.Errorf("features of %d and of %d values cannot be compared", len(a.Mean), len(b.Mean))
	}
	root, err := traceOfRoot(a.Covariance, b.Covariance)
	if err != nil {
		return 0, err
	}
	var mean float64
	for i := range a.Mean {
		d := a.Mean[i] - b.Mean[i]
		mean += d * d
	}
	return mean + mat.Trace(a.Covariance) + mat.Trace(b.Covariance) - 2*root, nil
}

// traceOfRoot is tr (AB)^(1/2) of covariances, the sum of the roots of AB's eigenvalues. With
// A = L L^T they are those of L^T B L, which is symmetric: its eigenvalues are found several
// times faster than AB's and are real. The factorisation is a pivoted one, L has A's rank.
func traceOfRoot(a, b *mat.SymDense) (float64, error) {
	n := a.SymmetricDim()
	for i := range n {
		for j := i; j < n; j++ {
			if s := a.At(i, j) + b.At(i, j); s-s != 0 {
				return 0, errors.New("a covariance is NaN or infinite")
			}
		}
	}
	var cholesky mat.PivotedCholesky
	cholesky.Factorize(a, -1) // false for a singular A, whose rank then counts
	rank := cholesky.Rank()
	if rank == 0 {
		return 0, nil
	}
	pivots := cholesky.ColumnPivots(nil)
	raw := cholesky.RawU()
	l := mat.NewDense(n, rank, nil) // L's rows in the order of A
	for i := range rank {
		for j := i; j < n; j++ {
			l.Set(pivots[j], i, raw.At(i, j))
		}
	}
	var bl, lbl mat.Dense
	bl.Mul(b, l)
	lbl.Mul(l.T(), &bl)
	s := mat.NewSymDense(rank, nil)
	for i := range rank {
		for j := i; j < rank; j++ {
			s.SetSym(i, j, (lbl.At(i, j)+lbl.At(j, i))/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(s, false) {
		return 0, errors.New("the eigenvalues of a product of covariances do not converge")
	}
	var sum float64
	for _, v := range eigen.Values(nil) {
		sum += math.Sqrt(max(v, 0)) // rounding alone makes one negative
	}
	return sum, nil
}
