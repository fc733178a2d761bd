package cpu

import (
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
