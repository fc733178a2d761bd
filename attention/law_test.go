package attention_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"unmask/attention"
	"unmask/backend"
	"unmask/backend/plain"
)

// The contract of a pass, by its definition: each row is computed by itself, in float64, from the
// keys and values that it sees, and compared with what Rows and Layer make of all rows together.

// places is how many keys of a sequence there are, with those of shadows behind the others.
const places = 9

// entry is a key and its value at a place of a sequence, [kv heads*dim] each.
type entry struct {
	key   []float32
	value []float32
}

// passRow is a row of a pass.
type passRow struct {
	seq       int
	place     int
	rotaryPos int

	// keys is how many keys the row sees, below its own place if the pass is causal.
	keys   int
	shadow *attention.Shadow
}

// pass is a drawn pass.
type pass struct {
	layer     attention.Layer
	sequences int
	rows      []passRow
	hasSeen   bool
	keys      int
}

// drawPass draws a layer and the rows of a pass.
func drawPass(t *rapid.T, rotary *backend.Rotary) *pass {
	p := &pass{sequences: rapid.IntRange(1, 3).Draw(t, "sequences"), keys: length}
	p.layer = attention.Layer{Heads: heads, HeadDim: dim, Causal: rapid.Bool().Draw(t, "causal")}
	if rapid.Bool().Draw(t, "one key head") {
		p.layer.KV = 1
	}
	if rapid.Bool().Draw(t, "rotates") {
		p.layer.Rotary = rotary
	}
	p.hasSeen = rapid.Bool().Draw(t, "lengths differ")
	turned := rapid.Bool().Draw(t, "turned")
	for s := range p.sequences {
		keys := length
		if p.hasSeen {
			keys = rapid.IntRange(1, length).Draw(t, "keys")
		}
		all := make([]int, keys)
		for i := range all {
			all[i] = i
		}
		if !p.layer.Causal {
			all = rapid.Permutation(all).Draw(t, "order")
		}
		first := len(p.rows)
		for _, place := range all {
			if !rapid.Bool().Draw(t, "computed") && len(p.rows) > first {
				continue
			}
			row := passRow{seq: s, place: place, rotaryPos: place, keys: keys}
			if turned {
				row.rotaryPos = rapid.IntRange(0, places-1).Draw(t, "turn")
			}
			p.rows = append(p.rows, row)
		}
		if p.hasSeen && turned {
			p.drawShadows(t, s, first, keys)
		}
	}
	return p
}

// drawShadows draws shadows of rows of a sequence, which begin at first.
func (p *pass) drawShadows(t *rapid.T, seq, first, keys int) {
	count := rapid.IntRange(0, places-length).Draw(t, "shadows")
	last := len(p.rows) - 1
	for i := range count {
		own := rapid.IntRange(first, last).Draw(t, "own row")
		place := p.rows[own].place
		p.rows[own].rotaryPos = place // its key is put back by the layer's own rotation
		p.rows = append(p.rows, passRow{
			seq:       seq,
			place:     length + i,
			rotaryPos: place,
			shadow: &attention.Shadow{
				Slot:    place,
				OwnRow:  own,
				LentRow: rapid.IntRange(first, last).Draw(t, "lent row"),
				LentPos: rapid.IntRange(0, places-1).Draw(t, "lent position"),
				Keys:    rapid.IntRange(place+1, max(place+1, keys)).Draw(t, "shadow's keys"),
			},
		})
	}
}

// fill sets rows to those of the pass.
func (p *pass) fill(rows *attention.Rows) {
	rows.Reset()
	rows.Causal = p.layer.Causal
	turned := false
	for i, r := range p.rows {
		turned = turned || r.rotaryPos != r.place
		if r.shadow != nil {
			rows.AddShadow(r.seq, int32(r.place), *r.shadow)
		} else {
			rows.Add(r.seq, int32(r.place))
		}
		if p.hasSeen && len(rows.Seen) < len(rows.Segs) {
			rows.Seen = append(rows.Seen, p.rows[i].keys)
		}
	}
	for i := 0; turned && i < len(p.rows); i++ {
		rows.RotaryPos = append(rows.RotaryPos, int32(p.rows[i].rotaryPos))
	}
}

// kvHeads returns the number of key heads.
func (p *pass) kvHeads() int {
	if p.layer.KV > 0 {
		return p.layer.KV
	}
	return heads
}

// splitRow returns the query, the key and the value of one row of qkv at a position.
func (p *pass) splitRow(b backend.Backend, qkv *tensor.Dense, row, position int) (query []float32,
	e entry) {
	kv := p.kvHeads()
	one := b.New(1, (heads+2*kv)*dim)
	b.Gather(one, qkv, []int32{int32(row)})
	q := b.New(1, heads*dim)
	k := b.New(1, kv, 1, dim)
	v := b.New(1, kv, 1, dim)
	rotary := p.layer.Rotary
	if rotary != nil {
		rotary = &backend.Rotary{Cos: b.New(1, dim/2), Sin: b.New(1, dim/2)}
		b.Gather(rotary.Cos, p.layer.Rotary.Cos, []int32{int32(position)})
		b.Gather(rotary.Sin, p.layer.Rotary.Sin, []int32{int32(position)})
	}
	b.SplitHeads(q, k, v, one, []backend.Segment{{Rows: 1}}, []int32{0}, p.layer.Shape(1), rotary)
	query = make([]float32, heads*dim)
	e.key = make([]float32, kv*dim)
	e.value = make([]float32, kv*dim)
	b.Read(query, q, 0)
	b.Read(e.key, k, 0)
	b.Read(e.value, v, 0)
	return query, e
}

// attend returns the attention of a query over entries.
func (p *pass) attend(query []float32, entries []entry) []float32 {
	out := make([]float32, heads*dim)
	for h := range heads {
		shared := h * p.kvHeads() / heads
		weights := make([]float64, len(entries))
		sum := 0.0
		for i, e := range entries {
			product := 0.0
			for d := range dim {
				product += float64(query[h*dim+d]) * float64(e.key[shared*dim+d])
			}
			weights[i] = math.Exp(product / math.Sqrt(dim))
			sum += weights[i]
		}
		for d := range dim {
			total := 0.0
			for i, e := range entries {
				total += weights[i] / sum * float64(e.value[shared*dim+d])
			}
			out[h*dim+d] = float32(total)
		}
	}
	return out
}

// compute computes the pass row by row on the entries of each sequence, which it changes.
func (p *pass) compute(b backend.Backend, qkv *tensor.Dense, kept [][]entry) (out [][]float32) {
	queries := make([][]float32, len(p.rows))
	for i, r := range p.rows {
		queries[i], kept[r.seq][r.place] = p.splitRow(b, qkv, i, r.rotaryPos)
	}
	for i, r := range p.rows {
		entries := kept[r.seq][:r.keys]
		if p.layer.Causal && r.shadow == nil {
			entries = entries[:min(r.place+1, r.keys)]
		}
		if s := r.shadow; s != nil {
			entries = slices.Clone(kept[r.seq][:s.Keys])
			_, entries[s.Slot] = p.splitRow(b, qkv, s.LentRow, s.LentPos)
		}
		out = append(out, p.attend(queries[i], entries))
	}
	return out
}

// kept returns the entries of a tensor [sequences, kv, places, dim] of keys and one of values.
func (p *pass) kept(b backend.Backend, k, v *tensor.Dense) [][]entry {
	kv := p.kvHeads()
	keys := make([]float32, p.sequences*kv*places*dim)
	vals := make([]float32, len(keys))
	b.Read(keys, k, 0)
	b.Read(vals, v, 0)
	out := make([][]entry, p.sequences)
	for s := range out {
		out[s] = make([]entry, places)
		for place := range places {
			for h := range kv {
				at := ((s*kv+h)*places + place) * dim
				e := &out[s][place]
				e.key = append(e.key, keys[at:at+dim]...)
				e.value = append(e.value, vals[at:at+dim]...)
			}
		}
	}
	return out
}

// drawTensor returns a tensor of drawn numbers.
func drawTensor(t *rapid.T, b backend.Backend, name string, shape ...int) *tensor.Dense {
	out := b.New(shape...)
	n := 1
	for _, size := range shape {
		n *= size
	}
	seed := rapid.Uint32Range(1, 1<<20).Draw(t, name)
	list := make([]float32, n)
	for i := range list {
		seed = seed*1664525 + 1013904223
		list[i] = float32(seed>>8)/(1<<23) - 1
	}
	b.Write(out, 0, list)
	return out
}

// checkSegments checks that segments are the rows in their order, each as long as it can be.
func (p *pass) checkSegments(t *rapid.T, rows *attention.Rows) {
	next := 0
	for i, s := range rows.Segs {
		require.Equal(t, next, s.Row)
		require.Positive(t, s.Rows)
		next += s.Rows
		first := p.rows[s.Row]
		require.Equal(t, first.seq, s.Seq)
		require.Equal(t, first.place, s.Pos)
		for j := 1; j < s.Rows; j++ {
			r := p.rows[s.Row+j]
			require.Equal(t, s.Seq, r.seq)
			require.Nil(t, r.shadow)
			require.True(t, !p.layer.Causal || r.place == first.place+j)
		}
		if i == 0 || rows.Segs[i-1].Seq != s.Seq {
			continue
		}
		before := p.rows[s.Row-1]
		require.True(t, before.shadow != nil || first.shadow != nil ||
			p.layer.Causal && before.place+1 != first.place, "one segment would do")
	}
	require.Equal(t, len(p.rows), next)
	require.Equal(t, len(p.rows), rows.Len())
}

// Each row has the attention that its definition gives: over the keys and values that it sees, at
// its own rotation, in passes of all kinds, also when Rows are filled again; rows that are picked
// have the same; and keys and values are left as each row wrote its own.
func TestRowsByTheirDefinition(t *testing.T) {
	b := plain.New()
	rapid.Check(t, func(t *rapid.T) {
		rotary := &backend.Rotary{Cos: drawTensor(t, b, "cosines", places, dim/2),
			Sin: drawTensor(t, b, "sines", places, dim/2)}
		var rows, picked attention.Rows
		for range 2 {
			p := drawPass(t, rotary)
			kv := p.kvHeads()
			n := len(p.rows)
			k := drawTensor(t, b, "keys", p.sequences, kv, places, dim)
			v := drawTensor(t, b, "values", p.sequences, kv, places, dim)
			qkv := drawTensor(t, b, "activations", n, (heads+2*kv)*dim)
			kept := p.kept(b, k, v)
			want := p.compute(b, qkv, kept)

			p.fill(&rows)
			p.checkSegments(t, &rows)
			q, got := b.New(n, width), b.New(n, width)
			p.layer.Apply(b, got, q, k, v, qkv, &rows, p.keys)
			require.InDeltaSlice(t, slices.Concat(want...), values(b, got, n), 1e-4)
			require.Equal(t, kept, p.kept(b, k, v))

			var chosen []int32
			var wanted []float32
			for i := range p.rows {
				if rapid.Bool().Draw(t, "picked") {
					chosen = append(chosen, int32(i))
					wanted = append(wanted, want[i]...)
				}
			}
			if len(chosen) == 0 {
				continue
			}
			picked.Pick(&rows, chosen)
			few, some := b.New(len(chosen), width), b.New(len(chosen), width)
			b.Gather(few, q, chosen)
			p.layer.Attend(b, some, few, k, v, &picked, p.keys)
			require.InDeltaSlice(t, wanted, values(b, some, len(chosen)), 1e-4)
			require.Equal(t, kept, p.kept(b, k, v))
		}
	})
}

// A group has whole sequences, as few as have the number of rows that is asked for.
func TestSplitGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []int32
		for i := range int32(4 * length) {
			if rapid.Bool().Draw(t, "row") {
				rows = append(rows, i)
			}
		}
		most := rapid.IntRange(1, 4*length).Draw(t, "most")
		group, rest := attention.SplitGroup(rows, length, most)
		require.Equal(t, rows, append(slices.Clone(group), rest...))
		if len(rest) == 0 {
			return
		}
		require.GreaterOrEqual(t, len(group), most)
		lastSequence := group[len(group)-1] / length
		require.Greater(t, rest[0]/length, lastSequence)
		begin := slices.IndexFunc(group, func(row int32) bool { return row/length == lastSequence })
		require.Less(t, begin, most)
	})
}

// FillSequences has all positions of its sequences, whatever was there before.
func TestFillSequences(t *testing.T) {
	var rows attention.Rows
	rows.Add(7, 3)
	rows.FillSequences(2, 3, 4)
	require.Equal(t, []backend.Segment{{Seq: 2, Row: 0, Rows: 4}, {Seq: 3, Row: 4, Rows: 4},
		{Seq: 4, Row: 8, Rows: 4}}, rows.Segs)
	require.Equal(t, []int32{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}, rows.Pos)
}

// A Buffer puts each row where it belongs, whatever it was grown for before, and keeps its memory
// while that is enough.
func TestBufferPutsRows(t *testing.T) {
	b := plain.New()
	rapid.Check(t, func(t *rapid.T) {
		var buffer attention.Buffer
		for range 2 {
			p := drawPass(t, nil)
			n := len(p.rows)
			before := buffer.T
			buffer.Grow(b, n, heads, dim)
			if before != nil && before.Shape()[0] >= n {
				require.Same(t, before, buffer.T)
			}
			source := drawTensor(t, b, "rows", n, width)
			list := values(b, source, n)
			b.Write(buffer.T, 0, list)
			dst := b.New(p.sequences, heads, places, dim)
			var rows attention.Rows
			p.fill(&rows)
			buffer.PutRows(b, dst, &rows)

			want := make([]float32, p.sequences*heads*places*dim)
			for i, r := range p.rows {
				for h := range heads {
					from := list[i*width+h*dim : i*width+(h+1)*dim]
					copy(want[((r.seq*heads+h)*places+r.place)*dim:], from)
				}
			}
			got := make([]float32, len(want))
			b.Read(got, dst, 0)
			require.Equal(t, want, got)
		}
	})
}
