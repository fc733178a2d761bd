package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// rowCall is a call of a kernel that treats each row, or each row of segments, independently.
type rowCall struct {
	kernel       func(j *rowJob, row, seq int)
	dst, x, a, b []float32
	width        int
	eps          float32
	from         []int32
	function     func(o vec.Ops, dst, x []float32)
}

// rowJob is a rowCall on all threads.
type rowJob struct {
	rowCall
	ops         vec.Ops
	rows, grain int // of all, of an item
	blocks      blocks
	each, some  func(worker, i int)
}

func (v *vectors) takeRows(c rowCall) *rowJob {
	j := v.rows.take(func(j *rowJob) {
		j.ops = v.ops
		j.each, j.some = j.eachRow, j.eachOfBlock
	})
	j.rowCall = c
	return j
}

// putRows returns a job after it has dropped the call's tensors.
func (v *vectors) putRows(j *rowJob) {
	j.rowCall, j.blocks.segs = rowCall{}, nil
	v.rows.put(j)
}

// grain is the number of values that is worth the cost of an item.
const grain = 1 << 14

// rowsPerItem returns the rows of an item of about `grain` values, such that threads get equal
// shares.
func (v *vectors) rowsPerItem(rows, width int) int {
	size, threads := max(1, grain/width), v.pool.Threads()
	items := (rows + size - 1) / size
	if items < 2 {
		return size
	}
	items = max(threads, items/threads*threads)
	return (rows + items - 1) / items
}

func (j *rowJob) eachRow(_, i int) {
	for row := i * j.grain; row < min(j.rows, (i+1)*j.grain); row++ {
		j.kernel(j, row, 0)
	}
}

func (j *rowJob) eachOfBlock(_, i int) {
	s, from, to := j.blocks.at(i)
	for row := from; row < to; row++ {
		j.kernel(j, s.Row+row, s.Seq)
	}
}

// run calls the kernel for rows 0..rows-1.
func (v *vectors) run(rows int, c rowCall) {
	j := v.takeRows(c)
	j.rows, j.grain = rows, v.rowsPerItem(rows, j.width)
	v.pool.For((rows+j.grain-1)/j.grain, j.each)
	v.putRows(j)
}

// runSegments calls the kernel for the rows of segments.
func (v *vectors) runSegments(segs []backend.Segment, c rowCall) {
	rows := 0
	for _, s := range segs {
		rows += s.Rows
	}
	j := v.takeRows(c)
	v.pool.For(j.blocks.cut(segs, v.rowsPerItem(rows, j.width)), j.some)
	v.putRows(j)
}

func (j *rowJob) row(x []float32, i int) []float32 { return x[i*j.width : (i+1)*j.width] }

// data returns a tensor's values, nil for a nil tensor.
func data(t *tensor.Dense) []float32 {
	if t == nil {
		return nil
	}
	return t.Float32s()
}

// LayerNorm computes dst = (x-mean)/sqrt(var+eps)*scale+shift by rows, in two passes.
func (v *vectors) LayerNorm(dst, x *tensor.Dense, rows int, n backend.Norm) {
	backend.CheckLayerNorm(dst, x, rows, n)
	v.run(rows, rowCall{dst: data(dst), x: data(x), a: data(n.Scale), b: data(n.Shift), eps: n.Eps,
		width: backend.Width(x), kernel: func(j *rowJob, row, _ int) {
			j.ops.LayerNorm(j.row(j.dst, row), j.row(j.x, row), j.a, j.b, j.eps)
		}})
}

// RMSNorm computes dst = x/sqrt(mean(x^2)+eps)*scale by rows.
func (v *vectors) RMSNorm(dst, x *tensor.Dense, rows int, n backend.Norm) {
	backend.CheckRMSNorm(dst, x, rows, n)
	v.run(rows, rowCall{dst: data(dst), x: data(x), a: data(n.Scale), eps: n.Eps,
		width: backend.Width(x), kernel: func(j *rowJob, row, _ int) {
			j.ops.RMSNorm(j.row(j.dst, row), j.row(j.x, row), j.a, j.eps)
		}})
}

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
