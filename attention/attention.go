// Package attention is multi-head self-attention with explicit key and value tensors.
// A pass computes some rows, all of a sequence's or a few, and each row attends to all
// keys and values of its sequence: the ones computed now and, in a partial pass, the ones
// that a full pass left in the cache.
package attention

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Rows says which positions of which sequences a pass computes. Activations are in this
// order: row i of every activation is position Pos[i] of its segment's sequence.
type Rows struct {
	Segs []backend.Segment
	Pos  []int32
}

// Len is the number of rows.
func (r *Rows) Len() int { return len(r.Pos) }

// Full sets r to all positions of n sequences, which stand in the keys' and values' batch
// from first on.
func (r *Rows) Full(first, n, length int) {
	r.Segs, r.Pos = r.Segs[:0], r.Pos[:0]
	for s := range n {
		r.Segs = append(r.Segs, backend.Segment{Seq: first + s, Row: s * length, Rows: length})
		for p := range length {
			r.Pos = append(r.Pos, int32(p))
		}
	}
}

// Some sets r to the given rows, sequence*length + position, grouped by ascending sequence.
func (r *Rows) Some(rows []int32, length int) {
	r.Segs, r.Pos = r.Segs[:0], r.Pos[:0]
	for i, row := range rows {
		seq := int(row) / length
		if n := len(r.Segs); n == 0 || r.Segs[n-1].Seq != seq {
			r.Segs = append(r.Segs, backend.Segment{Seq: seq, Row: i})
		}
		r.Segs[len(r.Segs)-1].Rows++
		r.Pos = append(r.Pos, row%int32(length))
	}
}

// Group splits rows, sequence*length + position in ascending order of sequences, after about
// most of them. A sequence stays whole: its rows see each other's new keys and values.
func Group(rows []int32, length, most int) (group, rest []int32) {
	n := min(most, len(rows))
	for n < len(rows) && int(rows[n])/length == int(rows[n-1])/length {
		n++
	}
	return rows[:n], rows[n:]
}

// Layer is the shape of one attention layer. Rotary is nil for networks with learned
// positions.
type Layer struct {
	Heads, HeadDim int
	Causal         bool
	BF16           bool // see backend.Heads
	Rotary         *backend.Rotary
}

// Apply takes qkv [rows, 3*heads*headDim], writes its keys and values to their positions in
// k and v [batch, heads, length, headDim], and computes dst [rows, heads*headDim], the
// attention of each row over keys 0..keys-1 of its sequence. q is scratch of dst's shape.
func (a Layer) Apply(b backend.Backend, dst, q, k, v, qkv *tensor.Dense, rows *Rows, keys int) {
	h := backend.Heads{Heads: a.Heads, HeadDim: a.HeadDim, Keys: keys, Causal: a.Causal, BF16: a.BF16}
	b.SplitHeads(q, k, v, qkv, rows.Segs, rows.Pos, h, a.Rotary)
	b.Attention(dst, q, k, v, rows.Segs, h)
}
