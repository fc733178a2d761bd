package metrics_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"unmask/research/metrics"
	"unmask/testkit/parity"
)

func moments(t testing.TB, rows [][]float32) metrics.Gaussian {
	m := metrics.NewMoments(len(rows[0]))
	for _, r := range rows {
		require.NoError(t, m.Add(r))
	}
	g, err := m.Gaussian()
	require.NoError(t, err)
	return g
}

// normal draws n rows with a large common offset, for which sums of squares would cancel.
func normal(seed uint64, n, width int, offset float64) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = make([]float32, width)
		common := r.NormFloat64()
		for j := range rows[i] {
			rows[i][j] = float32(offset + common*float64(j)/4 + r.NormFloat64())
		}
	}
	return rows
}

func TestMomentsAreTheTwoPassOnes(t *testing.T) {
	for _, n := range []int{2, 255, 256, 257, 1000} {
		const width = 5
		rows := normal(3, n, width, 1000)
		all := mat.NewDense(n, width, nil)
		for i, r := range rows {
			for j, v := range r {
				all.Set(i, j, float64(v))
			}
		}
		var want mat.SymDense
		stat.CovarianceMatrix(&want, all, nil)
		got := moments(t, rows)
		require.InDeltaSlice(t, want.RawSymmetric().Data, got.Covariance.RawSymmetric().Data, 1e-9)
		for j := range width {
			require.InDelta(t, stat.Mean(mat.Col(nil, j, all), nil), got.Mean[j], 1e-9)
		}
	}
	m := metrics.NewMoments(2)
	require.EqualError(t, m.Add([]float32{1}), "a feature of 1 values, the others have 2")
	require.ErrorContains(t, m.Add([]float32{1, float32(math.NaN())}), "value 1 of feature 0 is NaN")
	require.NoError(t, m.Add([]float32{1, 2}))
	_, err := m.Gaussian()
	require.EqualError(t, err, "pictures is 1, want at least 2")
}

func gaussian(mean []float64, covariance ...float64) metrics.Gaussian {
	return metrics.Gaussian{Mean: mean, Covariance: mat.NewSymDense(len(mean), covariance)}
}

// The Frechet distance in closed form.
func TestFrechet(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b metrics.Gaussian
		want float64
	}{
		{"itself", gaussian([]float64{1, 2}, 2, 1, 1, 3), gaussian([]float64{1, 2}, 2, 1, 1, 3), 0},
		{"one dimension", gaussian([]float64{1}, 4), gaussian([]float64{4}, 25), 9 + 9},
		{"diagonal", gaussian([]float64{0, 0}, 1, 0, 0, 9), gaussian([]float64{3, 4}, 4, 0, 0, 16),
			25 + 1 + 1},
		// A = 4I commutes with any B of eigenvalues 1 and 9: (2-1)^2 + (2-3)^2.
		{"rotated", gaussian([]float64{0, 0}, 4, 0, 0, 4), gaussian([]float64{0, 0}, 5, 4, 4, 5), 2},
		// Rank one in orthogonal directions: the product is 0.
		{"singular", gaussian([]float64{0, 0}, 4, 0, 0, 0), gaussian([]float64{0, 0}, 0, 0, 0, 9), 13},
		{"points", gaussian([]float64{0, 0}, 0, 0, 0, 0), gaussian([]float64{1, 1}, 0, 0, 0, 0), 2},
		// For 2x2 matrices tr sqrt(M) = sqrt(tr M + 2 sqrt(det M)).
		{"not commuting", gaussian([]float64{0, 0}, 2, 1, 1, 2), gaussian([]float64{0, 0}, 3, 0, 0, 1),
			8 - 2*math.Sqrt(8+2*3)},
	} {
		for range 2 {
			got, err := metrics.Frechet(c.a, c.b)
			require.NoError(t, err, c.name)
			require.InDelta(t, c.want, got, 1e-9, c.name)
			c.a, c.b = c.b, c.a // symmetric
		}
	}
	_, err := metrics.Frechet(gaussian([]float64{0}, 1), gaussian([]float64{0, 0}, 1, 0, 0, 1))
	require.EqualError(t, err, "features of 1 and of 2 values cannot be compared")
	_, err = metrics.Frechet(gaussian([]float64{0}, math.NaN()), gaussian([]float64{0}, 1))
	require.EqualError(t, err, "a covariance is NaN or infinite")
}

// The reference's values for the same features: four images of 128 pixels a side.
func TestFrechetOfThePack(t *testing.T) {
	p := parity.Open(t, "inception-thin")
	f, shape := p.Floats("features")
	rows := slices.Collect(slices.Chunk(f, shape[1]))
	want, _ := p.Floats("frechet_first_half_second_half")
	half := len(rows) / 2
	got, err := metrics.Frechet(moments(t, rows[:half]), moments(t, rows[half:]))
	require.NoError(t, err)
	require.InEpsilon(t, want[0], got, 1e-5)
}

// count returns 0..n-1.
func count(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

func TestInceptionScoreOfThePack(t *testing.T) {
	p := parity.Open(t, "inception-thin")
	logits, shape := p.Floats("logits_unbiased")
	want, _ := p.Floats("inception_score_2_splits_unshuffled")
	s, err := metrics.NewInceptionScore(shape[1], 2, count(shape[0]))
	require.NoError(t, err)
	for row := range slices.Chunk(logits, shape[1]) {
		require.NoError(t, s.Add(row))
	}
	mean, deviation, err := s.Value()
	require.NoError(t, err)
	require.InEpsilon(t, want[0], mean, 1e-5)
	require.InDelta(t, want[1], deviation, 1e-5*float64(want[0]))
}

// Uniform predictions score 1; certain ones, evenly spread over C classes, score C.
func TestInceptionScore(t *testing.T) {
	const classes, n = 8, 240
	uniform, err := metrics.NewInceptionScore(classes, 10, metrics.Permutation(2020, n))
	require.NoError(t, err)
	certain, err := metrics.NewInceptionScore(classes, 3, count(n))
	require.NoError(t, err)
	_, _, err = certain.Value()
	require.EqualError(t, err, "0 images of the 240 that were announced")
	for i := range n {
		require.NoError(t, uniform.Add(slices.Repeat([]float32{float32(i)}, classes)))
		row := make([]float32, classes)
		row[i%classes] = 1000
		require.NoError(t, certain.Add(row))
	}
	mean, deviation, err := uniform.Value()
	require.NoError(t, err)
	require.InDelta(t, 1, mean, 1e-12)
	require.InDelta(t, 0, deviation, 1e-12)
	mean, deviation, err = certain.Value()
	require.NoError(t, err)
	require.InDelta(t, classes, mean, 1e-9)
	require.InDelta(t, 0, deviation, 1e-9)
	require.EqualError(t, certain.Add(make([]float32, classes)),
		"more than the 240 images that were announced")

	_, err = metrics.NewInceptionScore(classes, 10, count(9))
	require.ErrorContains(t, err, "9 images in 10 splits")
	one, err := metrics.NewInceptionScore(classes, 1, count(1))
	require.NoError(t, err)
	require.EqualError(t, one.Add(make([]float32, 3)), "image 0 has 3 logits, the others 8")
	require.ErrorContains(t, one.Add(slices.Repeat([]float32{float32(math.Inf(1))}, classes)),
		"logit 0 of image 0 is +Inf")
}

// numpy.random.RandomState(2020).permutation(n).
func TestPermutationIsNumpys(t *testing.T) {
	require.Empty(t, metrics.Permutation(2020, 0))
	require.Equal(t, []int{0}, metrics.Permutation(2020, 1))
	require.Equal(t, []int{2, 4, 9, 1, 5, 7, 6, 3, 8, 0}, metrics.Permutation(2020, 10))
	require.Equal(t, []int{14, 17, 20, 21, 24, 2, 15, 18, 1, 13, 23, 29},
		metrics.Permutation(2020, 31)[:12])
	large := metrics.Permutation(2020, 50000)
	require.Equal(t, []int{24397, 39273, 6546, 13504, 49765, 31361, 27741, 47758, 22393, 18289, 19072,
		34689}, large[:12])
	sum := 0
	for i, v := range large {
		sum += i * v
	}
	require.Equal(t, 31221568855262, sum)
}

// The shuffle decides the splits: here each image has its own class, which tells the split.
func TestInceptionScoreShuffles(t *testing.T) {
	const n = 10
	s, err := metrics.NewInceptionScore(2, 5, metrics.Permutation(2020, n))
	require.NoError(t, err)
	for i := range n {
		row := []float32{0, 0}
		row[min(i/5, 1)] = 1000
		require.NoError(t, s.Add(row))
	}
	// Pairs of the permutation above, (2 4) (9 1) (5 7) (6 3) (8 0): three pairs have one of each.
	mean, _, err := s.Value()
	require.NoError(t, err)
	require.InDelta(t, (1+2+1+2+2)/5.0, mean, 1e-9)
}

func TestPrecisionRecall(t *testing.T) {
	ctx := context.Background()
	line := func(from, to int) (rows [][]float32) {
		for i := from; i < to; i++ {
			rows = append(rows, []float32{float32(i), 0})
		}
		return rows
	}
	for _, c := range []struct {
		name              string
		real, generated   [][]float32
		precision, recall float64
	}{
		{"same", line(0, 300), line(0, 300), 1, 1},
		{"apart", line(0, 20), line(100, 120), 0, 0},
		// The third neighbour is 2 away inside the line and 3 at its ends, so 0..9 reach 12.
		{"overlap", line(0, 10), line(5, 15), 8.0 / 10, 8.0 / 10},
		{"a mode is missing", slices.Concat(line(0, 10), line(100, 110)), line(0, 10), 1, 0.5},
		{"one too many", line(0, 10), slices.Concat(line(0, 10), line(100, 110)), 0.5, 1},
	} {
		precision, recall, err := metrics.PrecisionRecall(ctx, c.real, c.generated, 3)
		require.NoError(t, err, c.name)
		require.Equal(t, []float64{c.precision, c.recall}, []float64{precision, recall}, c.name)
	}
	_, _, err := metrics.PrecisionRecall(ctx, line(0, 3), line(0, 9), 3)
	require.EqualError(t, err,
		"3 real and 9 generated features with 3 neighbours, want more features than neighbours")
	_, _, err = metrics.PrecisionRecall(ctx, line(0, 9), append(line(0, 9), []float32{1}), 3)
	require.EqualError(t, err, "feature 9 has 1 values, the others 2")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = metrics.PrecisionRecall(cancelled, line(0, 9), line(0, 9), 3)
	require.ErrorIs(t, err, context.Canceled)
}

// Compared with the definition, on sets larger than a tile.
func TestPrecisionRecallByDefinition(t *testing.T) {
	real, generated := normal(5, 300, 4, 0), normal(6, 270, 4, 0.7)
	precision, recall, err := metrics.PrecisionRecall(context.Background(), real, generated, 2)
	require.NoError(t, err)
	require.InDelta(t, among(real, generated, 2), precision, 1e-12)
	require.InDelta(t, among(generated, real, 2), recall, 1e-12)
	require.True(t, precision > 0.2 && precision < 1 && recall > 0.2 && recall < 1,
		"a case that tells: %v and %v", precision, recall)
}

func among(set, samples [][]float32, k int) float64 {
	distance := func(a, b []float32) (d float64) {
		for i := range a {
			d += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
		}
		return d
	}
	n := 0.0
	for _, s := range samples {
		for _, center := range set {
			var all []float64
			for _, o := range set {
				all = append(all, distance(center, o))
			}
			slices.Sort(all) // the first is the point itself
			if distance(center, s) <= all[k] {
				n++
				break
			}
		}
	}
	return n / float64(len(samples))
}
