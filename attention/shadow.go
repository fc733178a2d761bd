package attention

import (
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Shadow is a second row of a position: it sees other keys and values than the position's own row,
// and only shadows see its own. Kernels know keys 0..Keys-1, so the position's key makes room for
// another one while the shadow's row is computed.
type Shadow struct {
	// Slot is where the position's own key lies, which is the position too.
	Slot int

	// OwnRow is the row of that key.
	OwnRow int

	// LentRow is the row whose key lies at Slot while the shadow's row is computed, and LentPos the
	// position of that row.
	LentRow int
	LentPos int

	// Keys is the number of keys that the shadow sees.
	Keys int
}

// shadows holds the shadows of a pass.
type shadows struct {
	// list are the shadows, and segments, [len(list)], theirs, ascending.
	list     []Shadow
	segments []int

	// qkv is that of the latest SplitQKV.
	qkv *tensor.Dense

	// spare takes queries that nobody reads, and pos has the positions of rows that are split again.
	spare *tensor.Dense
	pos   []int32

	// lent rotates every place by lentPos. It is made of lentSource.
	lent       *backend.Rotary
	lentPos    int
	lentSource *backend.Rotary
}

// AddShadow adds a shadow's row, whose own key lies at pos.
func (r *Rows) AddShadow(seq int, pos int32, s Shadow) {
	h := &r.shadows
	h.segments = append(h.segments[:len(h.list)], len(r.Segs))
	h.list = append(h.list, s)
	r.Segs = append(r.Segs, backend.Segment{Seq: seq, Row: len(r.Pos), Rows: 1, Pos: int(pos)})
	r.Pos = append(r.Pos, pos)
}

// Shadows returns the shadows, which may be changed before SplitQKV.
func (r *Rows) Shadows() []Shadow { return r.shadows.list }

// shadow returns the shadow of a segment, nil if it is none.
func (r *Rows) shadow(segment int) *Shadow {
	h := &r.shadows
	for i := len(h.list) - 1; i >= 0 && h.segments[i] >= segment; i-- {
		if h.segments[i] == segment {
			return &h.list[i]
		}
	}
	return nil
}

// attendShadow computes the attention of one shadow's row.
func (a Layer) attendShadow(b backend.Backend, dst, q, k, v *tensor.Dense, rows *Rows, segment int,
	s *Shadow) {
	h := &rows.shadows
	seg := rows.Segs[segment]
	rotary := a.Rotary
	if rotary != nil && s.LentPos != s.Slot {
		rotary = h.rotateAll(b, rotary, s.LentPos, k.Shape()[2])
	}
	a.putRow(b, k, v, h, seg.Seq, s.LentRow, s.Slot, rotary)
	seg.Pos = s.Keys - 1 // so that causal attention sees all Keys
	b.Attention(dst, q, k, v, []backend.Segment{seg}, a.Shape(s.Keys))
	a.putRow(b, k, v, h, seg.Seq, s.OwnRow, s.Slot, a.Rotary) // the lent slot gets its own key back
}

// putRow writes the key and the value of a row of the latest SplitQKV to a slot.
func (a Layer) putRow(b backend.Backend, k, v *tensor.Dense, h *shadows, seq, row, slot int,
	rotary *backend.Rotary) {
	h.spare = backend.Grow(b, h.spare, row+1, a.Heads*a.HeadDim)
	for len(h.pos) <= row {
		h.pos = append(h.pos, 0)
	}
	h.pos[row] = int32(slot)
	segment := []backend.Segment{{Seq: seq, Row: row, Rows: 1, Pos: slot}}
	b.SplitHeads(h.spare, k, v, h.qkv, segment, h.pos, a.Shape(slot+1), rotary)
}

// rotateAll returns a table that rotates by one position at each of n places.
func (h *shadows) rotateAll(b backend.Backend, rotary *backend.Rotary, pos, n int) *backend.Rotary {
	if h.lentSource == rotary && h.lentPos == pos && backend.Rows(h.lent.Cos) >= n {
		return h.lent
	}
	if h.lent == nil {
		h.lent = new(backend.Rotary)
	}
	h.lentSource = rotary
	h.lentPos = pos
	gatherRotations(b, h.lent, rotary, slices.Repeat([]int32{int32(pos)}, n))
	return h.lent
}
