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
	Slot    int // where the position's own key lies, which is the position too
	OwnRow  int // the row of that key
	LentRow int // the row whose key lies there meanwhile
	LentPos int // the position of that row
	Keys    int // that the shadow sees
}

// shadows holds the shadows of a pass.
type shadows struct {
	list []Shadow
	at   []int         // [len(list)] their segments, ascending
	qkv  *tensor.Dense // of the latest Split

	spare *tensor.Dense // queries that nobody reads
	pos   []int32
	lent  *backend.Rotary // the rotation of position turn at all places
	turn  int
	of    *backend.Rotary // of which lent is made
}

// AddShadow adds a shadow's row, whose own key lies at pos.
func (r *Rows) AddShadow(seq int, pos int32, s Shadow) {
	h := &r.shadows
	h.list, h.at = append(h.list, s), append(h.at[:len(h.list)], len(r.Segs))
	r.Segs = append(r.Segs, backend.Segment{Seq: seq, Row: len(r.Pos), Rows: 1, Pos: int(pos)})
	r.Pos = append(r.Pos, pos)
}

// Shadows returns the shadows, which may be changed before Split.
func (r *Rows) Shadows() []Shadow { return r.shadows.list }

// shadow returns the shadow of a segment, nil if it is none.
func (r *Rows) shadow(segment int) *Shadow {
	h := &r.shadows
	for i := len(h.list) - 1; i >= 0 && h.at[i] >= segment; i-- {
		if h.at[i] == segment {
			return &h.list[i]
		}
	}
	return nil
}

// attendShadow computes the attention of one shadow's row.
func (a Layer) attendShadow(b backend.Backend, dst, q, k, v *tensor.Dense, rows *Rows, segment int,
	s *Shadow) {
	seg, h := rows.Segs[segment], &rows.shadows
	rotary := a.Rotary
	if rotary != nil && s.LentPos != s.Slot {
		rotary = h.lend(b, rotary, s.LentPos, k.Shape()[2])
	}
	a.put(b, k, v, h, seg.Seq, s.LentRow, s.Slot, rotary)
	seg.Pos = s.Keys - 1
	b.Attention(dst, q, k, v, []backend.Segment{seg}, a.Shape(s.Keys))
	a.put(b, k, v, h, seg.Seq, s.OwnRow, s.Slot, a.Rotary)
}

// put writes the key and the value of a row of the latest Split to a slot.
func (a Layer) put(b backend.Backend, k, v *tensor.Dense, h *shadows, seq, row, slot int,
	rotary *backend.Rotary) {
	h.spare = backend.Grow(b, h.spare, row+1, a.Heads*a.HeadDim)
	for len(h.pos) <= row {
		h.pos = append(h.pos, 0)
	}
	h.pos[row] = int32(slot)
	one := []backend.Segment{{Seq: seq, Row: row, Rows: 1, Pos: slot}}
	b.SplitHeads(h.spare, k, v, h.qkv, one, h.pos, a.Shape(slot+1), rotary)
}

// lend returns a table that rotates by one position at each of n places.
func (h *shadows) lend(b backend.Backend, rotary *backend.Rotary, turn, n int) *backend.Rotary {
	if h.of == rotary && h.turn == turn && backend.Rows(h.lent.Cos) >= n {
		return h.lent
	}
	if h.lent == nil {
		h.lent = new(backend.Rotary)
	}
	h.of, h.turn = rotary, turn
	turnTo(b, h.lent, rotary, slices.Repeat([]int32{int32(turn)}, n))
	return h.lent
}
