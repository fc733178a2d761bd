package attention

import (
	"slices"

	"unmask/backend"
)

// turned holds tables of rotations of rows whose keys and values do not lie at their positions.
type turned struct {
	of     *backend.Rotary   // of which the tables are made; nil: none are
	tables []*backend.Rotary // of each segment, by place
	places []int32
}

// tables returns a table of rotations for each segment, made once for all layers with a rotary.
func (r *Rows) tables(b backend.Backend, rotary *backend.Rotary) []*backend.Rotary {
	t := &r.turned
	if t.of == rotary {
		return t.tables[:len(r.Segs)]
	}
	t.of = rotary
	for i, s := range r.Segs {
		if i == len(t.tables) {
			t.tables = append(t.tables, new(backend.Rotary))
		}
		pos := r.Pos[s.Row : s.Row+s.Rows]
		n := int(slices.Max(pos)) + 1
		t.places = append(t.places[:0], make([]int32, n)...)
		for i, at := range pos {
			t.places[at] = r.RotaryPos[s.Row+i]
		}
		turnTo(b, t.tables[i], rotary, t.places)
	}
	return t.tables[:len(r.Segs)]
}

// turnTo sets a table to the rotations of positions, one at each place.
func turnTo(b backend.Backend, table, rotary *backend.Rotary, positions []int32) {
	n, half := len(positions), backend.Width(rotary.Cos)
	table.Cos, table.Sin = backend.Grow(b, table.Cos, n, half), backend.Grow(b, table.Sin, n, half)
	b.Gather(table.Cos, rotary.Cos, positions)
	b.Gather(table.Sin, rotary.Sin, positions)
}
