package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// groupJob is a group norm: first the moments of blocks of pixels, then those of the groups.
type groupJob struct {
	ops                     vec.Ops
	x, scale, shift         []float32
	norm                    backend.Norm
	a, b                    []float32
	pixels, channels        int
	groups, block, blocks   int
	moments                 []moments // [batch, blocks, groups]
	sums                    []float32 // [threads, channels]
	means                   []float32
	blockMoments, groupMaps func(worker, i int)
}

// moments are a count of values, their mean, and the sum of squared differences from it.
type moments struct{ n, mean, squares float64 }

// join merges the moments of other values (Chan, Golub and LeVeque 1979).
func (m *moments) join(o moments) {
	n, d := m.n+o.n, o.mean-m.mean
	m.mean += d * o.n / n
	m.squares += o.squares + d*d*m.n*o.n/n
	m.n = n
}

// GroupNorm writes the scale and shift of each image and channel that normalise x
// [batch, pixels, channels]. It reads x from memory once.
func (v *vectors) GroupNorm(scale, shift, x *tensor.Dense, batch, pixels, channels, groups int,
	n backend.Norm) {
	backend.CheckGroupNorm(scale, shift, x, batch, pixels, channels, groups, n)
	j := v.groups.take(func(j *groupJob) {
		j.ops = v.ops
		j.blockMoments, j.groupMaps = j.eachBlock, j.eachGroup
	})
	j.x, j.scale, j.shift, j.a, j.b, j.norm = data(x), data(scale), data(shift), data(n.Scale),
		data(n.Shift), n
	j.pixels, j.channels, j.groups = pixels, channels, groups
	j.block = min(max(grain/channels/2, 1), pixels)
	j.blocks = (pixels + j.block - 1) / j.block
	j.moments = grown(j.moments, batch*j.blocks*groups)
	j.sums, j.means = grown(j.sums, v.pool.Threads()*channels),
		grown(j.means, v.pool.Threads()*channels)
	v.pool.For(batch*j.blocks, j.blockMoments)
	v.pool.For(batch*groups, j.groupMaps)
	j.x, j.scale, j.shift, j.a, j.b, j.norm = nil, nil, nil, nil, nil, backend.Norm{}
	v.groups.put(j)
}

// eachBlock computes the groups' moments over a block of pixels, which is small enough to be in the
// first-level cache when it is read again.
func (j *groupJob) eachBlock(worker, i int) {
	image, first := i/j.blocks, i%j.blocks*j.block
	n := min(j.block, j.pixels-first)
	x := j.x[(image*j.pixels+first)*j.channels:][:n*j.channels]
	sums, means := j.sums[worker*j.channels:][:j.channels], j.means[worker*j.channels:][:j.channels]
	size := j.channels / j.groups
	result := j.moments[i*j.groups:][:j.groups]
	j.ops.ColumnSums(sums, x)
	for g := range result {
		m := moments{n: float64(n * size)}
		for _, s := range sums[g*size : (g+1)*size] {
			m.mean += float64(s)
		}
		m.mean /= m.n
		for c := g * size; c < (g+1)*size; c++ {
			means[c] = float32(m.mean)
		}
		result[g] = m
	}
	j.ops.ColumnSquares(sums, x, means)
	for g := range result {
		m := &result[g]
		for _, s := range sums[g*size : (g+1)*size] {
			m.squares += float64(s)
		}
		d := m.mean - float64(means[g*size]) // the squares are about the rounded mean
		m.squares = max(0, m.squares-m.n*d*d)
	}
}

func (j *groupJob) eachGroup(_, i int) {
	image, g := i/j.groups, i%j.groups
	m := j.moments[image*j.blocks*j.groups+g]
	for b := 1; b < j.blocks; b++ {
		m.join(j.moments[(image*j.blocks+b)*j.groups+g])
	}
	size := j.channels / j.groups
	inverse := 1 / math.Sqrt(m.squares/m.n+float64(j.norm.Eps))
	for c := g * size; c < (g+1)*size; c++ {
		a, b := inverse, 0.0
		if j.a != nil {
			a *= float64(j.a[c])
		}
		if j.b != nil {
			b = float64(j.b[c])
		}
		j.scale[image*j.channels+c] = float32(a)
		j.shift[image*j.channels+c] = float32(b - float64(m.mean*a))
	}
}
