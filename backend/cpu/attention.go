package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

const (
	queryBlock = 96 // rows of an item, a multiple of every panel
	keyBlock   = 96 // keys whose scores are held at a time, at most
)

// attentionJob is an Attention; an item is a block of rows of one head. Queries lie along the
// lanes of panels, so keys and values are read as they are and the softmax has no horizontal sums:
//
//	scores [keys, queries] = k q^T, weights = 2^(scores-top), o [dim, queries] = v^T weights
//
// The blocks of keys begin at key 0 whatever the rows are, and a lane does not know of the others: a row has the same
// bits in any batch.
type attentionJob struct {
	ops          vec.Ops
	panels       []vec.Panel // the widest first
	dst, q, k, v []float32
	h            backend.Heads
	bf16         bool // weights and values
	length       int
	blocks       blocks
	scratch      []attentionScratch // of each worker
	item         func(worker, i int)
}

type attentionScratch struct {
	q, o            []float32 // [dim, lanes] of each panel
	top, sum, alpha []float32 // [lanes] of each panel
	scores          []float32 // [keyBlock, lanes] of a panel
	v               []float32 // a block of values in bfloat16: [keyBlock/2, dim]
}

// Attention computes dst = softmax(q k^T/sqrt(headDim)) v, an online softmax over blocks of keys.
func (v *vectors) Attention(dst, q, k, val *tensor.Dense, segs []backend.Segment, h backend.Heads) {
	backend.CheckAttention(dst, q, k, val, segs, h)
	j := v.attentions.take(func(j *attentionJob) {
		j.ops = v.ops
		j.panels = v.ops.Panels()
		j.scratch = make([]attentionScratch, v.pool.Threads())
		j.item = j.block
	})
	j.dst, j.q, j.k, j.v, j.h, j.length = data(dst), data(q), data(k), data(val), h, k.Shape()[2]
	j.bf16 = h.BF16 && v.bf16 && h.HeadDim%16 == 0
	for i := range j.scratch {
		j.scratch[i].grow(h.HeadDim, j.panels[0].Lanes())
	}
	v.pool.For(j.blocks.cut(segs, queryBlock)*h.Heads, j.item)
	j.dst, j.q, j.k, j.v, j.blocks.segs = nil, nil, nil, nil, nil
	v.attentions.put(j)
}

func (s *attentionScratch) grow(dim, lanes int) {
	s.q, s.o = grown(s.q, queryBlock*dim), grown(s.o, queryBlock*dim)
	s.top, s.sum, s.alpha = grown(s.top, queryBlock), grown(s.sum, queryBlock), grown(s.alpha, queryBlock)
	s.scores = grown(s.scores, keyBlock*lanes)
	s.v = grown(s.v, keyBlock/2*dim)
}

// block computes item i: a block of rows, one head.
func (j *attentionJob) block(worker, i int) {
	s, from, to := j.blocks.at(i / j.h.Heads)
	head, dim := i%j.h.Heads, j.h.HeadDim
	w := &j.scratch[worker]
	place := (s.Seq*j.h.Heads + head) * j.length * dim
	k, v := j.k[place:][:j.h.Keys*dim], j.v[place:][:j.h.Keys*dim]

	clear(w.sum)
	for i := range w.top {
		w.top[i] = float32(math.Inf(-1))
	}
	clear(w.o)
	j.load(w, s.Row+from, to-from, head)
	step := keyStep(j.h.Keys)
	for key := 0; key < j.h.Keys; key += step {
		n := min(step, j.h.Keys-key)
		end := (key + n) * dim
		soon := v[key*dim:] // what is read next, to be fetched meanwhile
		if j.bf16 {
			soon = v[end:]
			j.ops.PairBF16(w.v, v[key*dim:], n, dim)
		}
		for at := 0; at < to-from; {
			p := j.panel(to - from - at)
			lanes := p.Lanes()
			n := n
			if j.h.Causal { // the last row of the panel sees keys up to its own position
				n = min(n, s.Pos+min(from+at+lanes, to)-key)
			}
			if n > 0 {
				p.Scores(w.scores, k[key*dim:], w.q[at*dim:], n, dim, soon)
				if j.h.Causal {
					mask(w.scores, lanes, n, s.Pos+from+at-key)
				}
				p.Softmax(w.scores, w.top[at:], w.sum[at:], w.alpha[at:], n)
				if j.bf16 {
					j.ops.PairBF16(w.scores, w.scores, n, lanes)
					p.ValuesBF16(w.o[at*dim:], w.v, w.scores, w.alpha[at:], (n+1)/2, dim, k[end:])
				} else {
					p.Values(w.o[at*dim:], v[key*dim:], w.scores, w.alpha[at:], n, dim, k[end:])
				}
			}
			at += lanes
		}
	}
	j.store(w, s.Row+from, to-from, head)
}

// keyStep cuts keys into blocks of about 64, of nearly the same size.
func keyStep(keys int) int {
	blocks := max(1, (keys+32)/64)
	return ((keys+blocks-1)/blocks + 7) &^ 7
}

// panel is that for the next of n rows: the widest that they do not leave a narrow one's lanes of empty.
func (j *attentionJob) panel(n int) vec.Panel {
	narrow := j.panels[len(j.panels)-1]
	for _, p := range j.panels {
		if n > p.Lanes()-narrow.Lanes() {
			return p
		}
	}
	return narrow
}

// mask hides keys beyond each lane's position: lane l sees scores 0..first+l.
func mask(scores []float32, lanes, keys, first int) {
	for key := max(0, first+1); key < keys; key++ {
		row := scores[key*lanes : (key+1)*lanes]
		for l := range min(key-first, lanes) {
			row[l] = float32(math.Inf(-1))
		}
	}
}

// load puts rows of q into the lanes of panels, scaled for scores in units of log 2.
func (j *attentionJob) load(w *attentionScratch, row, rows, head int) {
	dim, width := j.h.HeadDim, j.h.Heads*j.h.HeadDim
	var scale [8]float32
	for i := range scale {
		scale[i] = float32(math.Log2E / math.Sqrt(float64(dim)))
	}
	for at := 0; at < rows; {
		lanes := j.panel(rows - at).Lanes()
		panel := w.q[at*dim:][:lanes*dim]
		if rows-at < lanes {
			clear(panel)
		}
		n := min(lanes, rows-at)
		for l := 0; l < n; l += 8 {
			q, blocks := j.q[(row+at+l)*width+head*dim:], 0
			if l+8 <= n {
				blocks = dim / 8
				j.ops.Transpose(panel[l:], q, &scale, lanes, width, 8*lanes, 8, blocks)
			}
			for i := range min(8, n-l) {
				for d := 8 * blocks; d < dim; d++ {
					panel[d*lanes+l+i] = q[i*width+d] * scale[i]
				}
			}
		}
		at += lanes
	}
}

// store writes the lanes of panels, divided by the sums of their weights, to rows of dst.
func (j *attentionJob) store(w *attentionScratch, row, rows, head int) {
	dim, width := j.h.HeadDim, j.h.Heads*j.h.HeadDim
	for at := 0; at < rows; {
		lanes := j.panel(rows - at).Lanes()
		panel := w.o[at*dim:][:lanes*dim]
		n := min(lanes, rows-at)
		for l := 0; l < n; l += 8 {
			var scale [8]float32
			for i, sum := range w.sum[at+l : at+l+8] {
				scale[i] = 1 / sum
			}
			dst, blocks := j.dst[(row+at+l)*width+head*dim:], 0
			if l+8 <= n {
				blocks = dim / 8
				j.ops.Transpose(dst, panel[l:], &scale, width, lanes, 8, 8*lanes, blocks)
			}
			for i := range min(8, n-l) {
				for d := 8 * blocks; d < dim; d++ {
					dst[i*width+d] = panel[d*lanes+l+i] * scale[i]
				}
			}
		}
		at += lanes
	}
}
