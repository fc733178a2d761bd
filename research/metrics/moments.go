package metrics

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// Gaussian is a normal distribution, which is all that a Frechet distance uses of a set of
// features.
type Gaussian struct {
	Mean       []float64     // [width]
	Covariance *mat.SymDense // [width, width]
}

// Moments computes mean and covariance of a stream of features, in float64, in memory that does not
// grow with their number. The result's bits depend on the features alone, not on how they were
// batched: they are merged in blocks of fixed size with the update of Chan, Golub & LeVeque 1983,
// which does not cancel as sums of squares do. One goroutine at a time may use one.
type Moments struct {
	n       int // features that were merged
	mean    []float64
	scatter blas64.Symmetric // sum of (x-mean)(x-mean)^T, upper triangle

	block  blas64.General // features that are not yet merged
	filled int            // rows of block in use
	delta  []float64      // [width], used by merge
}

// blockRows is the number of features merged at once.
const blockRows = 256

// NewMoments returns the moments of an empty stream of features of this width.
func NewMoments(width int) *Moments {
	return &Moments{
		mean: make([]float64, width),
		scatter: blas64.Symmetric{
			N:      width,
			Stride: width,
			Uplo:   blas.Upper,
			Data:   make([]float64, width*width),
		},
		block: blas64.General{
			Rows:   blockRows,
			Cols:   width,
			Stride: width,
			Data:   make([]float64, blockRows*width),
		},
		delta: make([]float64, width),
	}
}

// Add adds one feature vector, of the stream's width.
func (m *Moments) Add(feature []float32) error {
	width := len(m.mean)
	if len(feature) != width {
		return fmt.Errorf("a feature of %d values, the others have %d", len(feature), width)
	}
	row := m.block.Data[m.filled*width : (m.filled+1)*width]
	for i, v := range feature {
		if v-v != 0 {
			return fmt.Errorf("value %d of feature %d is %v, want a finite number", i, m.n+m.filled, v)
		}
		row[i] = float64(v)
	}

	m.filled++
	if m.filled == blockRows {
		m.merge()
	}
	return nil
}

// Count returns the number of features.
func (m *Moments) Count() int { return m.n + m.filled }

// merge adds the block's rows to mean and scatter.
func (m *Moments) merge() {
	if m.filled == 0 {
		return
	}
	width := len(m.mean)
	rows := float64(m.filled)
	block := m.block
	block.Rows = m.filled
	clear(m.delta) // the block's mean, then its difference from the mean so far
	for r := range m.filled {
		for i, v := range block.Data[r*width : (r+1)*width] {
			m.delta[i] += v
		}
	}
	for i := range m.delta {
		m.delta[i] /= rows
	}
	for r := range m.filled {
		for i := range width {
			block.Data[r*width+i] -= m.delta[i]
		}
	}
	countBefore := float64(m.n)
	countAfter := float64(m.n) + rows
	blas64.Syrk(blas.Trans, 1, block, 1, m.scatter)
	for i := range m.delta {
		m.delta[i] -= m.mean[i]
		m.mean[i] += m.delta[i] * rows / countAfter
	}
	blas64.Syr(countBefore*rows/countAfter, blas64.Vector{N: width, Inc: 1, Data: m.delta}, m.scatter)
	m.n += m.filled
	m.filled = 0
}

// Gaussian returns the mean and the covariance (divided by N-1, as numpy.cov's) of two features or
// more. It merges the current block: the same calls of Add and Gaussian give the same bits.
func (m *Moments) Gaussian() (Gaussian, error) {
	if m.Count() < 2 {
		return Gaussian{}, fmt.Errorf("pictures is %d, want at least 2", m.Count())
	}
	m.merge()
	width := len(m.mean)
	g := Gaussian{Mean: append([]float64(nil), m.mean...), Covariance: mat.NewSymDense(width, nil)}
	for i := range width {
		for j := i; j < width; j++ {
			g.Covariance.SetSym(i, j, m.scatter.Data[i*width+j]/float64(m.n-1))
		}
	}
	return g, nil
}

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
	l := factorCovariance(a)
	m := factorCovariance(b)
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

// factorCovariance returns L [n, rank] with A = L L^T, nil for A = 0, from a pivoted Cholesky
// factorisation, which stops at the rank of a singular A.
func factorCovariance(a *mat.SymDense) *mat.Dense {
	var cholesky mat.PivotedCholesky
	cholesky.Factorize(a, -1) // false for a singular A
	n := a.SymmetricDim()
	rank := cholesky.Rank()
	if rank == 0 {
		return nil
	}
	pivots := cholesky.ColumnPivots(nil)
	upper := cholesky.RawU()
	l := mat.NewDense(n, rank, nil)
	for i := range rank {
		for j := i; j < n; j++ {
			l.Set(pivots[j], i, upper.At(i, j))
		}
	}
	return l
}
