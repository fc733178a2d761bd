package attention

import (
	"slices"

	"gorgonia.org/tensor"

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
			t.places[at] = r.Turns[s.Row+i]
		}
		one, half := t.tables[i], backend.Width(rotary.Cos)
		one.Cos, one.Sin = grow(b, one.Cos, n, half), grow(b, one.Sin, n, half)
		b.Gather(one.Cos, rotary.Cos, t.places)
		b.Gather(one.Sin, rotary.Sin, t.places)
	}
	return t.tables[:len(r.Segs)]
}

func grow(b backend.Backend, t *tensor.Dense, rows, width int) *tensor.Dense {
	if t == nil || t.Shape()[0] < rows {
		return b.New(rows, width)
	}
	return t
}
