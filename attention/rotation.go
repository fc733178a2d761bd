package attention

import (
	"slices"

	"unmask/backend"
)

// rotations holds tables of rotations of rows whose keys and values do not lie at their positions.
// Kernels rotate a row by the place of its key, so each segment gets a table that has, at the place
// of each row, the rotation of the row's position.
type rotations struct {
	// source is the table of which the others are made; nil means that none are.
	source *backend.Rotary

	// tables are those of each segment, by place.
	tables []*backend.Rotary

	// positions is the memory for the positions by place of one segment.
	positions []int32
}

// rotationTables returns a table of rotations for each segment, made once for all layers with a
// rotary.
func (r *Rows) rotationTables(b backend.Backend, rotary *backend.Rotary) []*backend.Rotary {
	t := &r.rotations
	if t.source == rotary {
		return t.tables[:len(r.Segs)]
	}
	t.source = rotary
	for i, s := range r.Segs {
		if i == len(t.tables) {
			t.tables = append(t.tables, new(backend.Rotary))
		}
		places := r.Pos[s.Row : s.Row+s.Rows]
		n := int(slices.Max(places)) + 1
		t.positions = append(t.positions[:0], make([]int32, n)...)
		for j, place := range places {
			t.positions[place] = r.RotaryPos[s.Row+j]
		}
		gatherRotations(b, t.tables[i], rotary, t.positions)
	}
	return t.tables[:len(r.Segs)]
}

// gatherRotations sets a table to the rotations of positions, one at each place.
func gatherRotations(b backend.Backend, table, rotary *backend.Rotary, positions []int32) {
	n := len(positions)
	half := backend.Width(rotary.Cos)
	table.Cos = backend.Grow(b, table.Cos, n, half)
	table.Sin = backend.Grow(b, table.Sin, n, half)
	b.Gather(table.Cos, rotary.Cos, positions)
	b.Gather(table.Sin, rotary.Sin, positions)
}
