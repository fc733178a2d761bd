package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// splitJob is one call of SplitHeads; an item is a block of rows.
type splitJob struct {
	ops vec.Ops

	q, k, v, qkv []float32
	cos, sin     []float32
	pos          []int32
	heads        backend.Heads
	blocks       segmentBlocks

	// length is the number of positions of k and v.
	length int

	// half is half of the numbers of a head that are rotated; 0 rotates none.
	half int

	// item is splitRows, made once because a method value allocates.
	item func(worker, i int)
}

// SplitHeads splits rows of qkv and rotates queries and keys.
func (v *vectors) SplitHeads(q, k, val, qkv *tensor.Dense, segs []backend.Segment, pos []int32,
	h backend.Heads, r *backend.Rotary) {
	backend.CheckSplitHeads(q, k, val, qkv, segs, pos, h, r)
	j := v.splits.take(func(j *splitJob) {
		j.ops = v.ops
		j.item = j.splitRows
	})
	j.q = data(q)
	j.k = data(k)
	j.v = data(val)
	j.qkv = data(qkv)
	j.pos = pos
	j.heads = h
	j.length = k.Shape()[2]
	j.half = 0
	if r != nil {
		j.cos = data(r.Cos)
		j.sin = data(r.Sin)
		j.half = backend.Width(r.Cos)
	}
	v.pool.For(j.blocks.setSegments(segs, v.rowsPerItem(len(pos), backend.Width(qkv))), j.item)

	// The job must not keep tensors alive.
	j.q = nil
	j.k = nil
	j.v = nil
	j.qkv = nil
	j.cos = nil
	j.sin = nil
	j.pos = nil
	j.blocks.segs = nil
	v.splits.put(j)
}

// splitRows splits the rows of block i.
func (j *splitJob) splitRows(_, i int) {
	s, begin, end := j.blocks.block(i)
	dim := j.heads.HeadDim
	kv := j.heads.KVHeads()
	width := (j.heads.Heads + 2*kv) * dim
	for row := s.Row + begin; row < s.Row+end; row++ {
		x := j.qkv[row*width:][:width]
		pos := int(j.pos[row])
		for head := range j.heads.Heads {
			j.writeHead(j.q[(row*j.heads.Heads+head)*dim:], x[head*dim:], pos)
		}
		keys := x[j.heads.Heads*dim:]
		for head := range kv {
			start := ((s.Seq*kv+head)*j.length + pos) * dim
			j.writeHead(j.k[start:], keys[head*dim:], pos)
			copy(j.v[start:][:dim], keys[(kv+head)*dim:])
		}
	}
}

// writeHead writes the head at x to dst, rotated by the angles of a position.
func (j *splitJob) writeHead(dst, x []float32, pos int) {
	n := 2 * j.half
	if n > 0 {
		j.ops.Rotate(dst[:n], x[:n], j.cos[pos*j.half:][:j.half], j.sin[pos*j.half:][:j.half])
	}
	copy(dst[n:j.heads.HeadDim], x[n:])
}

// headNormJob is one call of NormHeads; an item is some rows.
type headNormJob struct {
	ops   vec.Ops
	qkv   []float32
	heads backend.Heads

	// the scales and epsilons of query and key heads
	q, k       []float32
	qEps, kEps float32

	// rows are all rows, grain those of an item.
	rows  int
	grain int

	// item is normRows, made once because a method value allocates.
	item func(worker, i int)
}

// NormHeads is RMSNorm of each query head, with q, and each key head, with k, in place.
func (v *vectors) NormHeads(qkv *tensor.Dense, rows int, h backend.Heads, q, k backend.Norm) {
	backend.CheckNormHeads(qkv, rows, h, q, k)
	j := v.headNorms.take(func(j *headNormJob) {
		j.ops = v.ops
		j.item = j.normRows
	})
	j.qkv = data(qkv)
	j.q = data(q.Scale)
	j.k = data(k.Scale)
	j.qEps = q.Eps
	j.kEps = k.Eps
	j.heads = h
	j.rows = rows
	j.grain = v.rowsPerItem(rows, backend.Width(qkv))
	v.pool.For((rows+j.grain-1)/j.grain, j.item)

	// The job must not keep tensors alive.
	j.qkv = nil
	j.q = nil
	j.k = nil
	v.headNorms.put(j)
}

// normRows normalises the heads of item i's rows.
func (j *headNormJob) normRows(_, i int) {
	dim := j.heads.HeadDim
	kv := j.heads.KVHeads()
	width := (j.heads.Heads + 2*kv) * dim
	for row := i * j.grain; row < min(j.rows, (i+1)*j.grain); row++ {
		x := j.qkv[row*width:][:width]
		for head := range j.heads.Heads + kv {
			scale := j.q
			eps := j.qEps
			if head >= j.heads.Heads {
				scale = j.k
				eps = j.kEps
			}
			y := x[head*dim:][:dim]
			j.ops.RMSNorm(y, y, scale, eps)
		}
	}
}
