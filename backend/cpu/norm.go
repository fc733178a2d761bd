package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// rowCall is a call of a kernel that treats each row, or each row of segments, independently.
type rowCall struct {
	kernel func(j *rowJob, row, seq int)

	// The arguments that the kernel reads; dst and x are [rows, width].
	dst, x, a, b []float32
	width        int
	eps          float32
	from         []int32
	function     func(o vec.Ops, dst, x []float32)
}

// rowJob is a rowCall on all threads.
type rowJob struct {
	rowCall
	ops vec.Ops

	// An item is rowsPerItem of `rows` rows, or a block of segments.
	rows        int
	rowsPerItem int
	blocks      segmentBlocks

	// computeRows and computeSegmentRows, made once because a method value allocates
	rowsFunc     func(worker, i int)
	segmentsFunc func(worker, i int)
}

// takeRows returns a job for c.
func (v *vectors) takeRows(c rowCall) *rowJob {
	j := v.rows.take(func(j *rowJob) {
		j.ops = v.ops
		j.rowsFunc = j.computeRows
		j.segmentsFunc = j.computeSegmentRows
	})
	j.rowCall = c
	return j
}

// putRows returns a job after it has dropped the call's tensors.
func (v *vectors) putRows(j *rowJob) {
	j.rowCall = rowCall{}
	j.blocks.segs = nil
	v.rows.put(j)
}

// valuesPerItem is the number of values that is worth the cost of an item: fewer take less time
// than handing the item to another thread.
const valuesPerItem = 1 << 14

// rowsPerItem returns the rows of an item of about `grain` values, such that threads get equal
// shares.
func (v *vectors) rowsPerItem(rows, width int) int {
	size := max(1, valuesPerItem/width)
	threads := v.pool.Threads()
	items := (rows + size - 1) / size
	if items < 2 {
		return size
	}
	items = max(threads, items/threads*threads)
	return (rows + items - 1) / items
}

// computeRows computes item i of runRows.
func (j *rowJob) computeRows(_, i int) {
	for row := i * j.rowsPerItem; row < min(j.rows, (i+1)*j.rowsPerItem); row++ {
		j.kernel(j, row, 0)
	}
}

// computeSegmentRows computes item i of runSegments.
func (j *rowJob) computeSegmentRows(_, i int) {
	s, begin, end := j.blocks.block(i)
	for row := begin; row < end; row++ {
		j.kernel(j, s.Row+row, s.Seq)
	}
}

// runRows calls the kernel for rows 0..rows-1.
func (v *vectors) runRows(rows int, c rowCall) {
	j := v.takeRows(c)
	j.rows = rows
	j.rowsPerItem = v.rowsPerItem(rows, j.width)
	v.pool.For((rows+j.rowsPerItem-1)/j.rowsPerItem, j.rowsFunc)
	v.putRows(j)
}

// runSegments calls the kernel for the rows of segments.
func (v *vectors) runSegments(segs []backend.Segment, c rowCall) {
	rows := 0
	for _, s := range segs {
		rows += s.Rows
	}
	j := v.takeRows(c)
	v.pool.For(j.blocks.setSegments(segs, v.rowsPerItem(rows, j.width)), j.segmentsFunc)
	v.putRows(j)
}

// row returns row i of x [*, width].
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
	v.runRows(rows, rowCall{
		dst:   data(dst),
		x:     data(x),
		a:     data(n.Scale),
		b:     data(n.Shift),
		eps:   n.Eps,
		width: backend.Width(x),
		kernel: func(j *rowJob, row, _ int) {
			j.ops.LayerNorm(j.row(j.dst, row), j.row(j.x, row), j.a, j.b, j.eps)
		},
	})
}

// RMSNorm computes dst = x/sqrt(mean(x^2)+eps)*scale by rows.
func (v *vectors) RMSNorm(dst, x *tensor.Dense, rows int, n backend.Norm) {
	backend.CheckRMSNorm(dst, x, rows, n)
	v.runRows(rows, rowCall{
		dst:   data(dst),
		x:     data(x),
		a:     data(n.Scale),
		eps:   n.Eps,
		width: backend.Width(x),
		kernel: func(j *rowJob, row, _ int) {
			j.ops.RMSNorm(j.row(j.dst, row), j.row(j.x, row), j.a, j.eps)
		},
	})
}

// groupJob is a group norm: first the moments of blocks of pixels, then those of the groups.
type groupJob struct {
	ops vec.Ops

	// the arguments of the call; a and b are the norm's scale and shift
	x, scale, shift []float32
	norm            backend.Norm
	a, b            []float32
	pixels          int
	channels        int
	groups          int

	// An image's pixels are `blocks` blocks of `block` pixels.
	block  int
	blocks int

	moments []moments // [batch, blocks, groups]
	sums    []float32 // [threads, channels], as means
	means   []float32

	// sumBlock and writeMaps, made once because a method value allocates
	sumBlockFunc  func(worker, i int)
	writeMapsFunc func(worker, i int)
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
		j.sumBlockFunc = j.sumBlock
		j.writeMapsFunc = j.writeMaps
	})
	j.x = data(x)
	j.scale = data(scale)
	j.shift = data(shift)
	j.norm = n
	j.a = data(n.Scale)
	j.b = data(n.Shift)
	j.pixels = pixels
	j.channels = channels
	j.groups = groups
	j.block = min(max(valuesPerItem/channels/2, 1), pixels)
	j.blocks = (pixels + j.block - 1) / j.block
	j.moments = resized(j.moments, batch*j.blocks*groups)
	j.sums = resized(j.sums, v.pool.Threads()*channels)
	j.means = resized(j.means, v.pool.Threads()*channels)
	v.pool.For(batch*j.blocks, j.sumBlockFunc)
	v.pool.For(batch*groups, j.writeMapsFunc)

	// The job must not keep tensors alive.
	j.x = nil
	j.scale = nil
	j.shift = nil
	j.a = nil
	j.b = nil
	j.norm = backend.Norm{}
	v.groups.put(j)
}

// sumBlock computes the groups' moments over a block of pixels, which is small enough to be in the
// first-level cache when it is read again.
func (j *groupJob) sumBlock(worker, i int) {
	image := i / j.blocks
	first := i % j.blocks * j.block
	n := min(j.block, j.pixels-first)
	x := j.x[(image*j.pixels+first)*j.channels:][:n*j.channels]
	sums := j.sums[worker*j.channels:][:j.channels]
	means := j.means[worker*j.channels:][:j.channels]
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

// writeMaps merges the moments of a group's blocks, in order, and writes its channels' maps.
func (j *groupJob) writeMaps(_, i int) {
	image := i / j.groups
	g := i % j.groups
	m := j.moments[image*j.blocks*j.groups+g]
	for b := 1; b < j.blocks; b++ {
		m.join(j.moments[(image*j.blocks+b)*j.groups+g])
	}
	size := j.channels / j.groups
	inverse := 1 / math.Sqrt(m.squares/m.n+float64(j.norm.Eps))
	for c := g * size; c < (g+1)*size; c++ {
		a := inverse
		b := 0.0
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
