package cpu

import (
	"math"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

const (
	queryBlock = 192 // most rows of an item, a multiple of every panel's lanes
	maxKeys    = 96  // most keys whose scores are held at a time
)

// attentionJob is an Attention; an item is a block of rows of one head, or of all heads that share
// keys where rows are few. Queries lie along the lanes of panels, a row's heads side by side: keys
// and values are read as they are, and the softmax has no horizontal sums.
//
//	scores [keys, queries] = k q^T, weights = 2^(scores-top), o [dim, queries] = v^T weights
//
// The blocks of keys begin at key 0 whatever the rows are, and a lane does not know of the others:
// a row has the same bits in any batch.
type attentionJob struct {
	ops          vec.Ops
	panels       []vec.Panel // the widest first
	dst, q, k, v []float32
	h            backend.Heads
	group        int  // heads of an item
	rounded      bool // factors of both products are rounded, see stepRounded
	length       int
	blocks       blocks
	scratch      []attentionScratch // one for each worker
	item         func(worker, i int)
}

type attentionScratch struct {
	q, o            []float32 // [dim, lanes] of each panel
	top, sum, alpha []float32 // [lanes] of each panel
	scores          []float32 // [maxKeys, lanes] of a panel

	// Rounded factors, two in each word: queries and a block of keys as integers with a scale each,
	// values as bfloat16. [dim/2, lanes] of each panel, [maxKeys, dim/2], [maxKeys/2, dim]
	queries, keys, values []float32
	unit, scale           []float32 // [lanes] of each panel, [maxKeys]
}

// AttendsLocally implements backend.LocalAttention.
func (v *vectors) AttendsLocally() {}

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
	j.rounded = h.BF16 && v.halves && h.HeadDim%16 == 0
	for i := range j.scratch {
		j.scratch[i].grow(h.HeadDim, j.panels[0].Lanes())
	}
	block := queryBlock / 2 // more items, for an even share among threads
	if j.rounded {
		block = queryBlock // because each item rounds all keys and values
	}
	j.group = h.Heads / h.KVHeads()
	if j.group > block || slices.ContainsFunc(segs, func(s backend.Segment) bool {
		return s.Rows >= j.panels[0].Lanes()
	}) {
		j.group = 1
	}
	v.pool.For(j.blocks.cut(segs, block/j.group)*(h.Heads/j.group), j.item)
	j.dst, j.q, j.k, j.v, j.blocks.segs = nil, nil, nil, nil, nil
	v.attentions.put(j)
}

// grow makes room for heads of dim dimensions in one piece: separate buffers on Go's heap can map
// to the same cache sets, which costs up to 15 %.
func (s *attentionScratch) grow(dim, lanes int) {
	if len(s.q) >= queryBlock*dim {
		return
	}
	memory := allocate((5*queryBlock/2+maxKeys)*dim + maxKeys*lanes + 4*queryBlock + maxKeys)
	s.q, s.o = take(&memory, queryBlock*dim), take(&memory, queryBlock*dim)
	s.scores = take(&memory, maxKeys*lanes)
	s.queries, s.keys, s.values = take(&memory, queryBlock*dim/2), take(&memory, maxKeys*dim/2),
		take(&memory, maxKeys/2*dim)
	s.top, s.sum, s.alpha = take(&memory, queryBlock), take(&memory, queryBlock),
		take(&memory, queryBlock)
	s.unit, s.scale = take(&memory, queryBlock), take(&memory, maxKeys)
}

// block computes item i.
func (j *attentionJob) block(worker, i int) {
	items := j.h.Heads / j.group // of a block of rows
	s, from, to := j.blocks.at(i / items)
	head, dim, kv := i%items*j.group, j.h.HeadDim, j.h.KVHeads()
	w := &j.scratch[worker]
	place := (s.Seq*kv + head*kv/j.h.Heads) * j.length * dim
	k, v := j.k[place:], j.v[place:] // the next head's data follow and are prefetched at the end

	lanes := j.load(w, s.Row+from, to-from, head)
	clear(w.sum[:lanes])
	least := math.Inf(-1)
	if j.h.Window > 0 { // a row may see none of the first keys: 2^(-Inf - -Inf) is no number
		least = -1e30
	}
	for i := range lanes {
		w.top[i] = float32(least)
	}
	clear(w.o[:lanes*dim])
	step, pos, used := keyStep(j.h), s.Pos+from, (to-from)*j.group
	for key := 0; key < j.h.Keys; key += step {
		n := min(step, j.h.Keys-key)
		b := keyBlock{k[key*dim:], v[key*dim:], k[(key+n)*dim:], v[(key+n)*dim:]}
		if j.rounded {
			j.ops.FixRows(w.keys, w.scale, b.k, n, dim)
			j.ops.PairBF16(w.values, b.v, n, dim)
		}
		for at := 0; at < used; {
			p := j.panel(used - at)
			last := pos + (min(at+p.Lanes(), used)-1)/j.group // position of the panel's last row
			n := min(n, j.h.EndKey(last)-key)
			switch {
			case n <= 0 || key+n <= j.h.FirstKey(pos+at/j.group):
			case j.rounded:
				j.stepRounded(w, p, at, n, key, pos, b)
			default:
				j.step(w, p, at, n, key, pos, b)
			}
			at += p.Lanes()
		}
	}
	j.store(w, s.Row+from, to-from, head)
}

// keyBlock is a block of keys and values, and the next block, which is prefetched meanwhile.
type keyBlock struct{ k, v, nextK, nextV []float32 }

// step processes n keys from `key` on for the panel of lanes from `at` on. Lane 0 is at position
// pos.
func (j *attentionJob) step(w *attentionScratch, p vec.Panel, at, n, key, pos int, b keyBlock) {
	dim := j.h.HeadDim
	p.Scores(w.scores, b.k, w.q[at*dim:], n, dim, b.v)
	j.mask(w.scores, p.Lanes(), at, n, key, pos)
	p.Softmax(w.scores, w.top[at:], w.sum[at:], w.alpha[at:], n)
	p.Values(w.o[at*dim:], b.v, w.scores, w.alpha[at:], n, dim, b.nextK)
}

// stepRounded is step with scores from integers, and weights and values in bfloat16.
func (j *attentionJob) stepRounded(w *attentionScratch, p vec.Panel, at, n, key, pos int,
	b keyBlock) {
	dim := j.h.HeadDim
	p.ScoresFixed(w.scores, w.keys, w.scale, w.queries[at*dim/2:], n, dim, b.nextV)
	j.mask(w.scores, p.Lanes(), at, n, key, pos)
	even := n
	if n%2 == 1 { // half of the last pair, which no lane uses
		even++
		hide(w.scores[n*p.Lanes():][:p.Lanes()])
	}
	p.SoftmaxFixed(w.scores, w.unit[at:], w.top[at:], w.sum[at:], w.alpha[at:], even)
	p.ValuesBF16(w.o[at*dim:], w.values, w.scores, w.alpha[at:], even/2, dim, b.nextK)
}

// keyStep divides keys into blocks of about 64 and nearly equal size. Causal rows, which see some
// of the keys, have blocks that do not depend on how many keys there are: a row has the same bits
// in a pass over more or less of its sequence.
func keyStep(h backend.Heads) int {
	if h.Causal {
		return 64
	}
	blocks := max(1, (h.Keys+32)/64)
	return ((h.Keys+blocks-1)/blocks + 7) &^ 7
}

// panel returns the panel for the next of n rows: the widest one that leaves fewer lanes empty than
// the narrowest has.
func (j *attentionJob) panel(n int) vec.Panel {
	narrow := j.panels[len(j.panels)-1]
	for _, p := range j.panels {
		if n > p.Lanes()-narrow.Lanes() {
			return p
		}
	}
	return narrow
}

// mask hides, among n keys from `key` on, those that rows of lanes from `at` on do not attend to.
// Later lanes attend to at least as many, or from a later key on.
func (j *attentionJob) mask(scores []float32, lanes, at, n, key, pos int) {
	if !j.h.Causal && j.h.Window == 0 {
		return
	}
	// lanes before blind are too early for a key, those from seeing on too late
	blind, seeing := lanes, lanes
	noneLate := j.h.FirstKey(pos+(at+lanes-1)/j.group) <= key
	for i := n - 1; i >= 0; i-- {
		for blind > 0 && j.h.EndKey(pos+(at+blind-1)/j.group) > key+i {
			blind--
		}
		for seeing > 0 && j.h.FirstKey(pos+(at+seeing-1)/j.group) > key+i {
			seeing--
		}
		if blind == 0 && noneLate {
			return
		}
		row := scores[i*lanes:][:lanes]
		hide(row[:blind])
		hide(row[seeing:])
	}
}

func hide(scores []float32) {
	for i := range scores {
		scores[i] = float32(math.Inf(-1))
	}
}

// at returns where lane l of an item is in q and dst: its row and, among a row's, its head.
func (j *attentionJob) at(row, head, l int) int {
	return ((row+l/j.group)*j.h.Heads + head + l%j.group) * j.h.HeadDim
}

// load writes rows of q to the lanes of panels, scaled for scores in units of log 2, and returns
// the number of lanes.
func (j *attentionJob) load(w *attentionScratch, row, rows, head int) int {
	dim, used := j.h.HeadDim, rows*j.group
	var scale [8]float32
	for i := range scale {
		scale[i] = float32(math.Log2E / math.Sqrt(float64(dim)))
	}
	at := 0
	for at < used {
		p := j.panel(used - at)
		lanes := p.Lanes()
		panel := w.q[at*dim:][:lanes*dim]
		if used-at < lanes {
			clear(panel)
		}
		n := min(lanes, used-at)
		for l := 0; l < n; l += 8 {
			blocks := 0
			if l+8 <= n && j.group == 1 {
				blocks = dim / 8
				j.ops.Transpose(panel[l:], j.q[j.at(row, head, at+l):], &scale, lanes, j.h.Heads*dim, 8*lanes,
					8, blocks)
			}
			for i := range min(8, n-l) {
				q := j.q[j.at(row, head, at+l+i):][:dim]
				for d := 8 * blocks; d < dim; d++ {
					panel[d*lanes+l+i] = q[d] * scale[i]
				}
			}
		}
		if j.rounded {
			p.FixQueries(w.queries[at*dim/2:], w.unit[at:], panel, dim)
		}
		at += lanes
	}
	return at
}

// store writes the lanes of panels, divided by the sums of their weights, to rows of dst.
func (j *attentionJob) store(w *attentionScratch, row, rows, head int) {
	dim, used := j.h.HeadDim, rows*j.group
	for at := 0; at < used; {
		lanes := j.panel(used - at).Lanes()
		panel := w.o[at*dim:][:lanes*dim]
		n := min(lanes, used-at)
		for l := 0; l < n; l += 8 {
			var scale [8]float32
			for i, sum := range w.sum[at+l : at+l+8] {
				scale[i] = 1 / sum
			}
			blocks := 0
			if l+8 <= n && j.group == 1 {
				blocks = dim / 8
				j.ops.Transpose(j.dst[j.at(row, head, at+l):], panel[l:], &scale, j.h.Heads*dim, lanes, 8,
					8*lanes, blocks)
			}
			for i := range min(8, n-l) {
				dst := j.dst[j.at(row, head, at+l+i):][:dim]
				for d := 8 * blocks; d < dim; d++ {
					dst[d] = panel[d*lanes+l+i] * scale[i]
				}
			}
		}
		at += lanes
	}
}
