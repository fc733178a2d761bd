package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// splitJob is one call of SplitHeads; an item is a block of rows.
type splitJob struct {
	ops                    vec.Ops
	q, k, v, qkv, cos, sin []float32
	pos                    []int32
	h                      backend.Heads
	length, half           int // positions; half of the numbers that are rotated
	blocks                 blocks
	item                   func(worker, i int)
}

// SplitHeads splits rows of qkv and rotates queries and keys.
func (v *vectors) SplitHeads(q, k, val, qkv *tensor.Dense, segs []backend.Segment, pos []int32,
	h backend.Heads, r *backend.Rotary) {
	backend.CheckSplitHeads(q, k, val, qkv, segs, pos, h, r)
	j := v.splits.take(func(j *splitJob) { j.ops, j.item = v.ops, j.rows })
	j.q, j.k, j.v, j.qkv, j.pos, j.h, j.length = data(q), data(k), data(val), data(qkv), pos, h,
		k.Shape()[2]
	j.half = 0
	if r != nil {
		j.cos, j.sin, j.half = data(r.Cos), data(r.Sin), backend.Width(r.Cos)
	}
	v.pool.For(j.blocks.cut(segs, v.rowsPerItem(len(pos), backend.Width(qkv))), j.item)
	j.q, j.k, j.v, j.qkv, j.pos, j.cos, j.sin, j.blocks.segs = nil, nil, nil, nil, nil, nil, nil, nil
	v.splits.put(j)
}

func (j *splitJob) rows(_, i int) {
	s, from, to := j.blocks.at(i)
	dim, kv := j.h.HeadDim, j.h.KVHeads()
	width := (j.h.Heads + 2*kv) * dim
	for row := s.Row + from; row < s.Row+to; row++ {
		x, pos := j.qkv[row*width:][:width], int(j.pos[row])
		for head := range j.h.Heads {
			j.turn(j.q[(row*j.h.Heads+head)*dim:], x[head*dim:], pos)
		}
		keys := x[j.h.Heads*dim:]
		for head := range kv {
			place := ((s.Seq*kv+head)*j.length + pos) * dim
			j.turn(j.k[place:], keys[head*dim:], pos)
			copy(j.v[place:][:dim], keys[(kv+head)*dim:])
		}
	}
}

// turn writes the head at x to dst, rotated by the angles of a position.
func (j *splitJob) turn(dst, x []float32, pos int) {
	n := 2 * j.half
	if n > 0 {
		j.ops.Rotate(dst[:n], x[:n], j.cos[pos*j.half:][:j.half], j.sin[pos*j.half:][:j.half])
	}
	copy(dst[n:j.h.HeadDim], x[n:])
}

// headsJob is one call of NormHeads; an item is some rows.
type headsJob struct {
	ops         vec.Ops
	qkv, q, k   []float32
	qEps, kEps  float32
	h           backend.Heads
	rows, grain int
	item        func(worker, i int)
}

// NormHeads is RMSNorm of each query head, with q, and each key head, with k, in place.
func (v *vectors) NormHeads(qkv *tensor.Dense, rows int, h backend.Heads, q, k backend.Norm) {
	backend.CheckNormHeads(qkv, rows, h, q, k)
	j := v.headNorms.take(func(j *headsJob) { j.ops, j.item = v.ops, j.norm })
	j.qkv, j.q, j.k, j.qEps, j.kEps = data(qkv), data(q.Scale), data(k.Scale), q.Eps, k.Eps
	j.h, j.rows, j.grain = h, rows, v.rowsPerItem(rows, backend.Width(qkv))
	v.pool.For((rows+j.grain-1)/j.grain, j.item)
	j.qkv, j.q, j.k = nil, nil, nil
	v.headNorms.put(j)
}

func (j *headsJob) norm(_, i int) {
	dim, kv := j.h.HeadDim, j.h.KVHeads()
	width := (j.h.Heads + 2*kv) * dim
	for row := i * j.grain; row < min(j.rows, (i+1)*j.grain); row++ {
		x := j.qkv[row*width:][:width]
		for head := range j.h.Heads + kv {
			scale, eps := j.q, j.qEps
			if head >= j.h.Heads {
				scale, eps = j.k, j.kEps
			}
			y := x[head*dim:][:dim]
			j.ops.RMSNorm(y, y, scale, eps)
		}
	}
}
