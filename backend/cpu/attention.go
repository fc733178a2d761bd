package cpu

import (
	"math"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/vec"
)

const (
	// queryBlock is the most rows of an item, a multiple of every panel's lanes.
	queryBlock = 192

	// maxKeys is the most keys whose scores are held at a time. See keyStep.
	maxKeys = 96
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
	ops    vec.Ops
	panels []vec.Panel // the widest first

	// the arguments of the call
	dst, q, k, v []float32
	heads        backend.Heads
	blocks       segmentBlocks

	// length is the number of positions of k and v.
	length int

	// headsPerItem is 1, or all heads that share keys.
	headsPerItem int

	// rounded says that the factors of both products are rounded, see stepRounded.
	rounded bool

	scratch []attentionScratch // one for each worker

	// item is computeItem, made once because a method value allocates.
	item func(worker, i int)
}

// attentionScratch is the memory of a worker. The arrays of an item's panels follow each other:
// what belongs to the panel whose first lane is n begins at n times the array's other size.
type attentionScratch struct {
	q, o            []float32 // [dim, lanes] of each panel
	top, sum, alpha []float32 // [lanes] of each panel
	scores          []float32 // [maxKeys, lanes] of one panel

	// Rounded factors, two in each word: queries and a block of keys as integers with a scale each,
	// values as bfloat16.
	queries []float32 // [dim/2, lanes] of each panel
	unit    []float32 // [lanes] of each panel: the queries' scales
	keys    []float32 // [maxKeys, dim/2]
	scale   []float32 // [maxKeys]: the keys' scales
	values  []float32 // [maxKeys/2, dim]
}

// AttendsLocally implements backend.LocalAttention.
func (v *vectors) AttendsLocally() {}

// Attention computes dst = softmax(q k^T/sqrt(headDim)) v, with an online softmax over blocks of
// keys: scores are never stored as a whole, so a block of them stays in the nearest cache.
func (v *vectors) Attention(dst, q, k, val *tensor.Dense, segs []backend.Segment, h backend.Heads) {
	backend.CheckAttention(dst, q, k, val, segs, h)
	j := v.attentions.take(func(j *attentionJob) {
		j.ops = v.ops
		j.panels = v.ops.Panels()
		j.scratch = make([]attentionScratch, v.pool.Threads())
		j.item = j.computeItem
	})
	j.dst = data(dst)
	j.q = data(q)
	j.k = data(k)
	j.v = data(val)
	j.heads = h
	j.length = k.Shape()[2]
	j.rounded = h.BF16 && v.multipliesPairs && h.HeadDim%16 == 0
	for i := range j.scratch {
		j.scratch[i].reserve(h.HeadDim, j.panels[0].Lanes())
	}

	block := queryBlock / 2 // more items, for an even share among threads
	if j.rounded {
		block = queryBlock // because each item rounds all keys and values
	}
	// Heads that share keys go through them together, unless the rows alone fill the panels.
	j.headsPerItem = h.Heads / h.KVHeads()
	fillsPanel := slices.ContainsFunc(segs, func(s backend.Segment) bool {
		return s.Rows >= j.panels[0].Lanes()
	})
	if j.headsPerItem > block || fillsPanel {
		j.headsPerItem = 1
	}
	rowBlocks := j.blocks.setSegments(segs, block/j.headsPerItem)
	v.pool.For(rowBlocks*(h.Heads/j.headsPerItem), j.item)

	// The job must not keep tensors alive.
	j.dst = nil
	j.q = nil
	j.k = nil
	j.v = nil
	j.blocks.segs = nil
	v.attentions.put(j)
}

// reserve makes room for heads of dim dimensions in one piece: separate buffers on Go's heap can
// map to the same cache sets, which costs up to 15 %.
func (s *attentionScratch) reserve(dim, lanes int) {
	if len(s.q) >= queryBlock*dim {
		return
	}
	memory := allocate((5*queryBlock/2+maxKeys)*dim + maxKeys*lanes + 4*queryBlock + maxKeys)
	s.q = cutOff(&memory, queryBlock*dim)
	s.o = cutOff(&memory, queryBlock*dim)
	s.scores = cutOff(&memory, maxKeys*lanes)
	s.queries = cutOff(&memory, queryBlock*dim/2)
	s.keys = cutOff(&memory, maxKeys*dim/2)
	s.values = cutOff(&memory, maxKeys/2*dim)
	s.top = cutOff(&memory, queryBlock)
	s.sum = cutOff(&memory, queryBlock)
	s.alpha = cutOff(&memory, queryBlock)
	s.unit = cutOff(&memory, queryBlock)
	s.scale = cutOff(&memory, maxKeys)
}

// computeItem computes item i: the panels of a block of rows go through the keys together, block of
// keys by block of keys, so that a block is read from memory once for all of them.
func (j *attentionJob) computeItem(worker, i int) {
	itemsPerBlock := j.heads.Heads / j.headsPerItem
	s, begin, end := j.blocks.block(i / itemsPerBlock)
	head := i % itemsPerBlock * j.headsPerItem
	dim := j.heads.HeadDim
	kv := j.heads.KVHeads()
	w := &j.scratch[worker]
	start := (s.Seq*kv + head*kv/j.heads.Heads) * j.length * dim
	k := j.k[start:] // the next head's data follow and are prefetched at the end
	v := j.v[start:]

	lanes := j.loadQueries(w, s.Row+begin, end-begin, head)
	clear(w.sum[:lanes])
	lowest := math.Inf(-1)
	if j.heads.Window > 0 { // a row may see none of the first keys: 2^(-Inf - -Inf) is no number
		lowest = -1e30
	}
	for i := range lanes {
		w.top[i] = float32(lowest)
	}
	clear(w.o[:lanes*dim])

	step := keyStep(j.heads)
	pos := s.Pos + begin
	used := (end - begin) * j.headsPerItem
	for key := 0; key < j.heads.Keys; key += step {
		n := min(step, j.heads.Keys-key)
		b := keyBlock{k[key*dim:], v[key*dim:], k[(key+n)*dim:], v[(key+n)*dim:]}
		if j.rounded {
			j.ops.FixRows(w.keys, w.scale, b.k, n, dim)
			j.ops.PairBF16(w.values, b.v, n, dim)
		}
		for lane := 0; lane < used; {
			p := j.panelFor(used - lane)
			lastPos := pos + (min(lane+p.Lanes(), used)-1)/j.headsPerItem
			n := min(n, j.heads.EndKey(lastPos)-key)
			switch {
			case n <= 0 || key+n <= j.heads.FirstKey(pos+lane/j.headsPerItem): // no row sees a key
			case j.rounded:
				j.stepRounded(w, p, lane, n, key, pos, b)
			default:
				j.step(w, p, lane, n, key, pos, b)
			}
			lane += p.Lanes()
		}
	}
	j.storeRows(w, s.Row+begin, end-begin, head)
}

// keyBlock is a block of keys and values, and the next block, which is prefetched meanwhile.
type keyBlock struct{ k, v, nextK, nextV []float32 }

// step processes n keys from `key` on for panel p, whose first lane is `lane` of the item. Lane 0
// of the item is at position pos.
func (j *attentionJob) step(w *attentionScratch, p vec.Panel, lane, n, key, pos int, b keyBlock) {
	dim := j.heads.HeadDim
	p.Scores(w.scores, b.k, w.q[lane*dim:], n, dim, b.v)
	j.hideUnseen(w.scores, p.Lanes(), lane, n, key, pos)
	p.Softmax(w.scores, w.top[lane:], w.sum[lane:], w.alpha[lane:], n)
	p.Values(w.o[lane*dim:], b.v, w.scores, w.alpha[lane:], n, dim, b.nextK)
}

// stepRounded is step with scores from integers, and weights and values in bfloat16: processors
// that multiply pairs do so at twice the rate.
func (j *attentionJob) stepRounded(w *attentionScratch, p vec.Panel, lane, n, key, pos int,
	b keyBlock) {
	dim := j.heads.HeadDim
	p.ScoresFixed(w.scores, w.keys, w.scale, w.queries[lane*dim/2:], n, dim, b.nextV)
	j.hideUnseen(w.scores, p.Lanes(), lane, n, key, pos)
	even := n
	if n%2 == 1 { // half of the last pair, which no lane uses
		even++
		hideScores(w.scores[n*p.Lanes():][:p.Lanes()])
	}
	p.SoftmaxFixed(w.scores, w.unit[lane:], w.top[lane:], w.sum[lane:], w.alpha[lane:], even)
	p.ValuesBF16(w.o[lane*dim:], w.values, w.scores, w.alpha[lane:], even/2, dim, b.nextK)
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

// panelFor returns the panel for the next of n rows: the widest one that leaves fewer lanes empty
// than the narrowest has.
func (j *attentionJob) panelFor(n int) vec.Panel {
	narrow := j.panels[len(j.panels)-1]
	for _, p := range j.panels {
		if n > p.Lanes()-narrow.Lanes() {
			return p
		}
	}
	return narrow
}

// hideUnseen hides, among n keys from `key` on, those that the rows of `lanes` lanes from firstLane
// on do not attend to. Later lanes attend to at least as many keys, or from a later key on, so the
// lanes that see a key are a range whose ends only move to the left as keys descend.
func (j *attentionJob) hideUnseen(scores []float32, lanes, firstLane, n, key, pos int) {
	if !j.heads.Causal && j.heads.Window == 0 {
		return
	}
	// Lanes before tooEarly do not see the key yet, those from tooLate on no longer.
	tooEarly := lanes
	tooLate := lanes
	noneTooLate := j.heads.FirstKey(pos+(firstLane+lanes-1)/j.headsPerItem) <= key
	for i := n - 1; i >= 0; i-- {
		for tooEarly > 0 && j.heads.EndKey(pos+(firstLane+tooEarly-1)/j.headsPerItem) > key+i {
			tooEarly--
		}
		for tooLate > 0 && j.heads.FirstKey(pos+(firstLane+tooLate-1)/j.headsPerItem) > key+i {
			tooLate--
		}
		if tooEarly == 0 && noneTooLate {
			return
		}
		row := scores[i*lanes:][:lanes]
		hideScores(row[:tooEarly])
		hideScores(row[tooLate:])
	}
}

// hideScores sets scores to -Inf, whose weights are 0.
func hideScores(scores []float32) {
	for i := range scores {
		scores[i] = float32(math.Inf(-1))
	}
}

// offset returns where a lane of an item is in q and dst, given the item's first row and head:
// lanes are the heads of the first row, then those of the next.
func (j *attentionJob) offset(row, head, lane int) int {
	row += lane / j.headsPerItem
	head += lane % j.headsPerItem
	return (row*j.heads.Heads + head) * j.heads.HeadDim
}

// loadQueries writes rows of q to the lanes of panels, scaled for scores in units of log 2, and
// returns the number of lanes.
func (j *attentionJob) loadQueries(w *attentionScratch, row, rows, head int) int {
	dim := j.heads.HeadDim
	used := rows * j.headsPerItem
	var scale [8]float32
	for i := range scale {
		scale[i] = float32(math.Log2E / math.Sqrt(float64(dim)))
	}
	first := 0 // lane of the panel
	for first < used {
		p := j.panelFor(used - first)
		lanes := p.Lanes()
		panel := w.q[first*dim:][:lanes*dim]
		if used-first < lanes {
			clear(panel)
		}
		n := min(lanes, used-first)
		for l := 0; l < n; l += 8 {
			// Blocks of 8 by 8 are transposed in registers, the rest value by value.
			blocks := 0
			if l+8 <= n && j.headsPerItem == 1 {
				blocks = dim / 8
				j.ops.Transpose(panel[l:], j.q[j.offset(row, head, first+l):], &scale,
					lanes, j.heads.Heads*dim, 8*lanes, 8, blocks)
			}
			for i := range min(8, n-l) {
				q := j.q[j.offset(row, head, first+l+i):][:dim]
				for d := 8 * blocks; d < dim; d++ {
					panel[d*lanes+l+i] = q[d] * scale[i]
				}
			}
		}
		if j.rounded {
			p.FixQueries(w.queries[first*dim/2:], w.unit[first:], panel, dim)
		}
		first += lanes
	}
	return first
}

// storeRows writes the lanes of panels, divided by the sums of their weights, to rows of dst.
func (j *attentionJob) storeRows(w *attentionScratch, row, rows, head int) {
	dim := j.heads.HeadDim
	used := rows * j.headsPerItem
	for first := 0; first < used; {
		lanes := j.panelFor(used - first).Lanes()
		panel := w.o[first*dim:][:lanes*dim]
		n := min(lanes, used-first)
		for l := 0; l < n; l += 8 {
			var scale [8]float32
			for i, sum := range w.sum[first+l : first+l+8] {
				scale[i] = 1 / sum
			}
			blocks := 0
			if l+8 <= n && j.headsPerItem == 1 {
				blocks = dim / 8
				j.ops.Transpose(j.dst[j.offset(row, head, first+l):], panel[l:], &scale,
					j.heads.Heads*dim, lanes, 8, 8*lanes, blocks)
			}
			for i := range min(8, n-l) {
				dst := j.dst[j.offset(row, head, first+l+i):][:dim]
				for d := 8 * blocks; d < dim; d++ {
					dst[d] = panel[d*lanes+l+i] * scale[i]
				}
			}
		}
		first += lanes
	}
}
