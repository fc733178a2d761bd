// Package attention is multi-head self-attention with explicit key and value tensors. A pass
// computes some rows of a sequence, or all. Each row attends to all keys and values of its
// sequence: those computed in this pass and, in a partial pass, those that a full pass left in the
// cache.
package attention

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Rows are the positions that a pass computes, for several sequences. Activations are in this
// order: row i is position Pos[i] of its segment's sequence.
type Rows struct {
	// Segs are the segments, consecutive rows of one sequence, and Pos, [rows], the positions.
	Segs []backend.Segment
	Pos  []int32

	// Seen, [segments], is the number of keys that the rows of each segment attend to, if lengths
	// differ; empty means the number given to the call.
	Seen []int

	// Causal makes Add begin a new segment after a gap in the positions, because causal and local
	// attention only know the position of a segment's first row.
	Causal bool

	// RotaryPos, [rows], are the positions by which the rows are rotated, where these are not Pos;
	// empty means that they are Pos.
	RotaryPos []int32

	rotations rotations
	shadows   shadows
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.Pos) }

// Reset removes all rows.
func (r *Rows) Reset() {
	r.Segs = r.Segs[:0]
	r.Pos = r.Pos[:0]
	r.Seen = r.Seen[:0]
	r.RotaryPos = r.RotaryPos[:0]
	r.rotations.source = nil
	r.shadows.list = r.shadows.list[:0]
}

// Add adds a row. Rows of one sequence must follow each other.
func (r *Rows) Add(seq int, pos int32) {
	if r.beginsSegment(seq, pos) {
		r.Segs = append(r.Segs, backend.Segment{Seq: seq, Row: len(r.Pos), Pos: int(pos)})
	}
	r.Segs[len(r.Segs)-1].Rows++
	r.Pos = append(r.Pos, pos)
}

// beginsSegment reports whether a row cannot be one of the last segment.
func (r *Rows) beginsSegment(seq int, pos int32) bool {
	last := len(r.Segs) - 1
	if last < 0 || r.Segs[last].Seq != seq || r.shadow(last) != nil {
		return true
	}
	return r.Causal && r.Pos[len(r.Pos)-1]+1 != pos
}

// Pick sets r to some rows of source, ascending indexes. A network picks the rows whose output is
// read before it computes the last layer for them alone: the keys and values of all rows are in
// place then, so only queries are left.
func (r *Rows) Pick(source *Rows, rows []int32) {
	r.Reset()
	r.Causal = source.Causal
	r.shadows.qkv = source.shadows.qkv
	seg := 0
	for _, i := range rows {
		for int(i) >= source.Segs[seg].Row+source.Segs[seg].Rows {
			seg++
		}
		if s := source.shadow(seg); s != nil {
			r.AddShadow(source.Segs[seg].Seq, source.Pos[i], *s)
		} else {
			r.Add(source.Segs[seg].Seq, source.Pos[i])
		}
		if len(source.RotaryPos) > 0 {
			r.RotaryPos = append(r.RotaryPos, source.RotaryPos[i])
		}
		if len(source.Seen) > 0 && len(r.Seen) < len(r.Segs) { // a segment began with this row
			r.Seen = append(r.Seen, source.Seen[seg])
		}
	}
}

// Layer is the shape of one attention layer. Rotary is nil for networks with learned positions.
type Layer struct {
	Heads   int
	HeadDim int

	// KV is the number of key and value heads; 0 means Heads.
	KV int

	// Causal, Block, Window and BF16 are those of backend.Heads. Block needs Causal, and Window needs
	// Rows.Causal.
	Causal bool
	Block  int
	Window int
	BF16   bool

	Rotary *backend.Rotary
}

// Apply writes the keys and values in qkv [rows, (heads+2*kv)*headDim] to their positions in k and
// v [batch, kv, length, headDim] and computes dst [rows, heads*headDim], the attention of each row
// over keys 0..keys-1 of its sequence. q is scratch memory of dst's shape.
func (a Layer) Apply(b backend.Backend, dst, q, k, v, qkv *tensor.Dense, rows *Rows, keys int) {
	a.SplitQKV(b, q, k, v, qkv, rows, keys)
	a.Attend(b, dst, q, k, v, rows, keys)
}

// SplitQKV is the first half of Apply: it writes keys and values to k and v, and queries to q.
func (a Layer) SplitQKV(b backend.Backend, q, k, v, qkv *tensor.Dense, rows *Rows, keys int) {
	rows.shadows.qkv = qkv // of which shadows need single rows later
	if len(rows.RotaryPos) == 0 || a.Rotary == nil {
		b.SplitHeads(q, k, v, qkv, rows.Segs, rows.Pos, a.Shape(keys), a.Rotary)
		return
	}
	for i, table := range rows.rotationTables(b, a.Rotary) {
		b.SplitHeads(q, k, v, qkv, rows.Segs[i:i+1], rows.Pos, a.Shape(keys), table)
	}
}

// Attend is the second half of Apply, for all rows of SplitQKV or for some (see Rows.Pick), whose
// queries are in q. Consecutive segments that see the same number of keys are one call.
func (a Layer) Attend(b backend.Backend, dst, q, k, v *tensor.Dense, rows *Rows, keys int) {
	if len(rows.Seen) == 0 {
		b.Attention(dst, q, k, v, rows.Segs, a.Shape(keys))
		return
	}
	for first := 0; first < len(rows.Segs); {
		if s := rows.shadow(first); s != nil {
			a.attendShadow(b, dst, q, k, v, rows, first, s)
			first++
			continue
		}
		end := first + 1
		for end < len(rows.Segs) && rows.Seen[end] == rows.Seen[first] && rows.shadow(end) == nil {
			end++
		}
		b.Attention(dst, q, k, v, rows.Segs[first:end], a.Shape(rows.Seen[first]))
		first = end
	}
}

// Shape returns the backend's form of the layer, for attention over keys 0..keys-1.
func (a Layer) Shape(keys int) backend.Heads {
	return backend.Heads{
		Heads:   a.Heads,
		HeadDim: a.HeadDim,
		KV:      a.KV,
		Keys:    keys,
		Causal:  a.Causal,
		Block:   a.Block,
		Window:  a.Window,
		BF16:    a.BF16,
	}
}
