package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

// splitJob is a SplitHeads; an item is a block of rows.
type splitJob struct {
	ops                    vec.Ops
	q, k, v, qkv, cos, sin []float32
	pos                    []int32
	h                      backend.Heads
	length                 int
	blocks                 blocks
	item                   func(worker, i int)
}

// SplitHeads takes rows of qkv apart and rotates queries and keys.
func (v *vectors) SplitHeads(q, k, val, qkv *tensor.Dense, segs []backend.Segment, pos []int32, h backend.Heads, r *backend.Rotary) {
	backend.CheckSplitHeads(q, k, val, qkv, segs, pos, h, r)
	j := v.splits.take(func(j *splitJob) { j.ops, j.item = v.ops, j.rows })
	j.q, j.k, j.v, j.qkv, j.pos, j.h, j.length = data(q), data(k), data(val), data(qkv), pos, h, k.Shape()[2]
	if r != nil {
		j.cos, j.sin = data(r.Cos), data(r.Sin)
	}
	v.pool.For(j.blocks.cut(segs, v.rowsPerItem(len(pos), 3*h.Heads*h.HeadDim)), j.item)
	j.q, j.k, j.v, j.qkv, j.pos, j.cos, j.sin, j.blocks.segs = nil, nil, nil, nil, nil, nil, nil, nil
	v.splits.put(j)
}

func (j *splitJob) rows(_, i int) {
	s, from, to := j.blocks.at(i)
	dim := j.h.HeadDim
	width, half := j.h.Heads*dim, dim/2
	for row := s.Row + from; row < s.Row+to; row++ {
		x, pos := j.qkv[3*row*width:][:3*width], int(j.pos[row])
		for head := range j.h.Heads {
			at := head * dim
			place := ((s.Seq*j.h.Heads+head)*j.length + pos) * dim
			q, k := j.q[row*width+at:][:dim], j.k[place:][:dim]
			if j.cos == nil {
				copy(q, x[at:])
				copy(k, x[width+at:])
			} else {
				cos, sin := j.cos[pos*half:][:half], j.sin[pos*half:][:half]
				j.ops.Rotate(q, x[at:][:dim], cos, sin)
				j.ops.Rotate(k, x[width+at:][:dim], cos, sin)
			}
			copy(j.v[place:][:dim], x[2*width+at:])
		}
	}
}
