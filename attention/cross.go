package attention

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Cross is the attention of some rows to the keys and values of others, with rotary positions on
// both sides. Queries, and keys with values, come from different projections, and kernels split
// rows of all three. So each side is put beside two thirds, or one, that nobody reads.
type Cross struct {
	Layer

	// kv, [keys, 2*width], are the keys and values of one call.
	kv sideBySide

	// queries, [rows, 3*width], has the queries in its first third, and keys, [keys, 3*width], keys
	// and values in the others.
	queries, keys sideBySide

	// unread takes what the split of keys and values gives for queries.
	unread *tensor.Dense
}

// sideBySide is a tensor [rows, parts*width], and the same memory as [rows*parts, width].
type sideBySide struct {
	parts  int
	t      *tensor.Dense
	byPart *tensor.Dense

	// targets is the memory for the rows of byPart that a copy goes to.
	targets []int32
}

// grow makes room for rows.
func (f *sideBySide) grow(b backend.Backend, rows, parts, width int) {
	if f.t != nil && f.t.Shape()[0] >= rows {
		return
	}
	f.parts = parts
	f.t = b.New(rows, parts*width)
	f.byPart = f.t.ShallowClone()
	if err := f.byPart.Reshape(rows*parts, width); err != nil {
		panic(err) // cannot happen: the number of values is the same
	}
}

// put copies rows of src, [rows*count, width], to count parts of each row from part first on.
func (f *sideBySide) put(b backend.Backend, src *tensor.Dense, rows, first, count int) {
	f.targets = f.targets[:0]
	for i := range rows {
		for part := range count {
			f.targets = append(f.targets, int32(f.parts*i+first+part))
		}
	}
	b.Scatter(f.byPart, src, f.targets)
}

// KeysAndValues returns the tensor [rows, 2*width] for what Attend takes as keys and values.
func (c *Cross) KeysAndValues(b backend.Backend, rows int) *tensor.Dense {
	c.kv.grow(b, rows, 2, c.Heads*c.HeadDim)
	return c.kv.t
}

// Attend computes dst [rows, width], the attention of asked rows, whose queries are in q
// [rows, width], to the keys and values of the known rows, those of KeysAndValues. It overwrites q.
// k and v [batch, heads, length, headDim] are memory for one call, with at least as many places
// for each sequence as it has asked or known rows.
//
// Both kinds of rows have places from 0 on in each sequence, and their positions are RotaryPos.
// asked.Seen are the numbers of known rows.
func (c *Cross) Attend(b backend.Backend, dst, q, k, v *tensor.Dense, asked, known *Rows) {
	width := c.Heads * c.HeadDim
	c.queries.grow(b, asked.Len(), 3, width)
	c.keys.grow(b, known.Len(), 3, width)
	c.unread = backend.Grow(b, c.unread, known.Len(), width)
	most := k.Shape()[2]

	// Keys are written last: the split of queries leaves keys and values at the same places.
	c.queries.put(b, q, asked.Len(), 0, 1)
	c.SplitQKV(b, q, k, v, c.queries.t, asked, most)
	c.keys.put(b, c.kv.byPart, known.Len(), 1, 2)
	c.SplitQKV(b, c.unread, k, v, c.keys.t, known, most)
	c.Layer.Attend(b, dst, q, k, v, asked, most)
}
