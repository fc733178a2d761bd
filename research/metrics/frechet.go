package metrics

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// Frechet returns the squared Frechet distance of two Gaussians (Dowson & Landau 1982),
//
//	|m1-m2|^2 + tr C1 + tr C2 - 2 tr (C1 C2)^(1/2);
//
// of Inception-v3's pooled features it is the FID (Heusel et al. 2017). With fewer samples than the
// features' width the covariances are singular, which is allowed.
func Frechet(a, b Gaussian) (float64, error) {
	if len(a.Mean) != len(b.Mean) {
		return 0, fmt.Errorf("features of %d and of %d values cannot be compared", len(a.Mean),
			len(b.Mean))
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

// traceOfRoot returns tr (AB)^(1/2) of covariances. With A = L L^T and B = M M^T it is the sum of
// the singular values of L^T M. The eigenvalues of AB are their squares, and computing these would
// lose half of the digits of the small ones.
func traceOfRoot(a, b *mat.SymDense) (float64, error) {
	n := a.SymmetricDim()
	for i := range n {
		for j := i; j < n; j++ {
			if s := a.At(i, j) + b.At(i, j); s-s != 0 {
				return 0, errors.New("a covariance is NaN or infinite")
			}
		}
	}
	l, m := factor(a), factor(b)
	if l == nil || m == nil {
		return 0, nil
	}
	var product mat.Dense
	product.Mul(l.T(), m)
	var svd mat.SVD
	if !svd.Factorize(&product, mat.SVDNone) {
		return 0, errors.New("the singular values of a product of covariances do not converge")
	}
	var sum float64
	for _, v := range svd.Values(nil) {
		sum += v
	}
	return sum, nil
}

// factor returns L [n, rank] with A = L L^T, nil for A = 0, from a pivoted Cholesky factorisation,
// which stops at the rank of a singular A.
func factor(a *mat.SymDense) *mat.Dense {
	var cholesky mat.PivotedCholesky
	cholesky.Factorize(a, -1) // false for a singular A
	n, rank := a.SymmetricDim(), cholesky.Rank()
	if rank == 0 {
		return nil
	}
	pivots, upper := cholesky.ColumnPivots(nil), cholesky.RawU()
	l := mat.NewDense(n, rank, nil)
	for i := range rank {
		for j := i; j < n; j++ {
			l.Set(pivots[j], i, upper.At(i, j))
		}
	}
	return l
}
